use std::fs::File;
use std::io::{self, stdin};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::time::Duration;

use fencing::Lease;
use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::channel::{self, GuardStart, Order, line, now};
use super::{RunArgs, family};
use crate::exit::Status;
use crate::say;
use crate::signals::Signals;

const MAX_GRACE: Duration = Duration::from_secs(5);

/// The guard has begun to stop the command, or both have ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GuardEvent {
    Stopping,
    Ended(Status),
}

/// The command, as it runs under the lease: a child of the guard.
pub(super) struct GuardedCommand {
    guard: Child,
    socket: UnixStream,
    /// What the guard has said of its end so far.
    said: Vec<u8>,
}

impl GuardedCommand {
    /// Starts the guard, and has it start the command. With a terminal the command stays in this process's group.
    /// Another would have to be made the terminal's foreground group to read from it, and no process could take the
    /// terminal back afterwards (a process in the background that tries is stopped by SIGTTOU).
    pub(super) async fn start(run: &RunArgs, lease: &Lease, signals: &mut Signals) -> io::Result<GuardedCommand> {
        // A parent may have had SIGCHLD ignored: then no end of a child would be reported.
        let _ = signal(SignalKind::child())?;
        // For the case that the guard is killed.
        family::adopt()?;
        let terminal = terminal().is_some();
        if !terminal {
            // A request to suspend would stop this process alone.
            signals.add(Signal::TSTP)?;
        }
        // The path of a program that was replaced meanwhile leads to another.
        let program = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
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
        let start = GuardStart {
            group: if terminal { getpgrp().as_raw_nonzero().get() } else { 0 },
            grace: MAX_GRACE.min(run.ttl / 4),
            deadline: deadline(lease),
            command: run.command.clone(),
        };
        socket.write_all(&line(&start)?).await?;
        Ok(GuardedCommand { guard, socket, said: Vec::new() })
    }

    /// Waits for the next event. Fails with why the command is not guarded any more. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<GuardEvent, String> {
        let ended = loop {
            tokio::select! {
                biased;
                Ok(byte) = self.socket.read_u8() => match byte {
                    b'\n' => return Ok(GuardEvent::Stopping),
                    byte => self.said.push(byte),
                },
                ended = self.guard.wait() => break ended,
            }
        };
        let ended = ended.map_err(|error| format!("cannot wait for the guard: {error}"))?;
        if let Some(code) = ended.code() {
            let _ = self.socket.read_to_end(&mut self.said).await;
            match String::from_utf8_lossy(&self.said).trim() {
                "" => {}
                why => say::error(why),
            }
            return Ok(GuardEvent::Ended(Status::from_code(code)));
        }
        while family::reap(|_, _| {}) {
            family::signal(Signal::KILL);
            sleep(Duration::from_millis(10)).await;
        }
        Err("the guard was killed: the command is stopped".into())
    }

    /// Has the command stopped when the lease ends, as far as it is known now.
    pub(super) fn keep(&self, lease: &Lease) {
        self.send(&Order::Until(deadline(lease)));
    }

    /// Passes a signal on, but not INT and QUIT where the terminal has already sent them to the command.
    pub(super) fn pass_on(&self, signal: Signal) {
        let typed = || terminal().and_then(|file| tcgetpgrp(file).ok()) == Some(getpgrp());
        match signal {
            Signal::TSTP => self.suspend(),
            Signal::INT | Signal::QUIT if typed() => {}
            _ => self.send(&Order::Signal(signal.as_raw())),
        }
    }

    /// Stops the command and this process until this one is continued: the command must not continue without renewals
    /// of its lease. In the terminal's own group the terminal has stopped both.
    fn suspend(&self) {
        self.send(&Order::Signal(Signal::STOP.as_raw()));
        let _ = kill_process(getpid(), Signal::STOP);
        self.send(&Order::Signal(Signal::CONT.as_raw()));
    }

    /// Does not wait for a guard that was stopped: the lease would not be renewed.
    fn send(&self, order: &Order) {
        let _ = line(order).and_then(|line| self.socket.try_write(&line));
    }
}

fn terminal() -> Option<File> {
    File::open("/dev/tty").ok()
}

/// Returns when the lease ends. A pause between the two readings makes that too early, and never too late.
fn deadline(lease: &Lease) -> Duration {
    let now = now();
    now + lease.valid_for()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_guard_says_is_read_whole_in_any_number_of_calls() {
        let (socket, mut other) = UnixStream::pair().unwrap();
        let mut guard = Command::new("sh");
        let guard = guard.args(["-c", "read _; exit 7"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut running = GuardedCommand { guard, socket, said: Vec::new() };
        for part in [" can", "not ", "run a"] {
            other.write_all(part.as_bytes()).await.unwrap();
            // Something else comes first.
            tokio::select! {
                biased;
                ended = running.next() => panic!("{ended:?}"),
                () = sleep(Duration::from_millis(10)) => {}
            }
        }
        drop((other, running.guard.stdin.take()));
        assert_eq!(running.next().await, Ok(GuardEvent::Ended(Status(7))));
        assert_eq!(running.said, b" cannot run a");
    }
}
