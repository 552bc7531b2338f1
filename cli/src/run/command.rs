use std::fs::File;
use std::io::{self, stdin};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as Socket;
use std::time::Duration;

use fencing::Lease;
use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::sleep;

use super::channel::{self, Message, now};
use super::family;
use crate::args::Run;
use crate::signals::Signals;

/// The longest time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// The command, as it runs under the lease: a child of the guard.
pub(super) struct Running {
    guard: Child,
    socket: UnixStream,
    /// The requests to stand still. This process listens before the command starts: it would be stopped alone.
    pub(super) suspension: Option<Stream>,
}

impl Running {
    /// Starts the guard, and has it start the command.
    ///
    /// With a terminal the command stays in this process's group. Another would have to be made the
    /// terminal's foreground group to read from it, and nobody could take the terminal back afterwards
    /// (a process in the background that tries is stopped by SIGTTOU).
    pub(super) async fn start(run: &Run, lease: &Lease) -> io::Result<Running> {
        // A parent may have had SIGCHLD ignored: then no end of a child would be reported.
        let _ = signal(SignalKind::child())?;
        // For the case that the guard is killed.
        family::adopt()?;
        let terminal = terminal().is_some();
        let suspension = if terminal { None } else { Signals::suspension() };
        // The path of a program that was replaced meanwhile leads to another.
        let program = if cfg!(target_os = "linux") {
            "/proc/self/exe".into()
        } else {
            std::env::current_exe()?
        };
        let (socket, other) = Socket::pair()?;
        // The signals of the terminal and of a shell go to this process's group.
        let guard = Command::new(program)
            .arg0("fencing")
            .arg("guard")
            .env("FENCING_TOKEN", lease.token().to_string())
            .env("FENCING_RESOURCE", lease.resource().as_str())
            .stdin(OwnedFd::from(other))
            .process_group(0)
            .spawn()?;
        channel::send(&socket, stdin())?;
        socket.set_nonblocking(true)?;
        let mut socket = UnixStream::from_std(socket)?;
        let group = if terminal { getpgrp().as_raw_nonzero().get() } else { 0 };
        let (grace, deadline) = (GRACE.min(run.ttl / 4).as_nanos(), deadline(lease).as_nanos());
        let arguments = run.command.len().saturating_sub(1);
        let start = format!("{group}\0{grace}\0{deadline}\0{arguments}\0");
        socket.write_all(start.as_bytes()).await?;
        for argument in &run.command {
            socket.write_all(&[argument.as_bytes(), &[0]].concat()).await?;
        }
        Ok(Running { guard, socket, suspension })
    }

    /// Waits for what the guard reports next. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        let ended = tokio::select! {
            biased;
            Ok(_) = self.socket.read_u8() => return Ok(Event::Stopping),
            ended = self.guard.wait() => ended?,
        };
        if let Some(code) = ended.code() {
            return Ok(Event::Ended(u8::try_from(code).unwrap_or(u8::MAX)));
        }
        while family::reap(|_, _| {}) {
            family::signal(Signal::KILL);
            sleep(Duration::from_millis(10)).await;
        }
        Ok(Event::Unguarded)
    }

    /// Has the command stopped when the lease ends, as far as it is known now.
    pub(super) fn keep(&self, lease: &Lease) {
        self.send(Message::Until(deadline(lease)));
    }

    /// Passes a signal on, but not INT and QUIT where the terminal has already sent them to
    /// the command.
    pub(super) fn pass_on(&self, signal: Signal) {
        let typed = || terminal().and_then(|file| tcgetpgrp(file).ok()) == Some(getpgrp());
        if !matches!(signal, Signal::INT | Signal::QUIT) || !typed() {
            self.send(Message::Signal(signal));
        }
    }

    /// Stops the command and this process until this one is continued: the command must not go
    /// on while nobody renews its lease. In the terminal's own group the terminal has stopped
    /// both.
    pub(super) fn suspend(&self) {
        self.send(Message::Signal(Signal::STOP));
        let _ = kill_process(getpid(), Signal::STOP);
        self.send(Message::Signal(Signal::CONT));
    }

    /// A guard that stands still is not waited for: the lease would not be renewed.
    fn send(&self, message: Message) {
        let _ = self.socket.try_write(message.write().as_bytes());
    }
}

/// What the guard reports.
pub(super) enum Event {
    /// It has begun to stop the command.
    Stopping,
    /// It has ended, and the command with it.
    Ended(u8),
    /// It was killed, and the command was stopped.
    Unguarded,
}

/// Returns the terminal that controls this process.
fn terminal() -> Option<File> {
    File::open("/dev/tty").ok()
}

/// Returns when the lease ends. A pause between the two readings makes that too early, and never too late.
fn deadline(lease: &Lease) -> Duration {
    let now = now();
    now + lease.valid_for()
}
