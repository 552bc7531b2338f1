use std::ffi::OsString;
use std::io::{self, IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use fencing::Lease;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::target::{GRACE, Target};
use crate::exit;
use crate::signals::Signals;

/// The command, as it runs under the lease.
pub(super) struct Running {
    child: Child,
    target: Target,
    /// The requests to stand still. This process listens before the command starts: it would be stopped alone.
    pub(super) suspension: Option<tokio::signal::unix::Signal>,
}

impl Running {
    /// Starts the command, in a process group of its own.
    ///
    /// From a terminal it stays in this one's group: another would have to be made the
    /// terminal's foreground group, and nobody could take the terminal back afterwards
    /// (a process in the background that tries is stopped by SIGTTOU).
    pub(super) fn start(command: &[OsString], lease: &Lease) -> io::Result<Running> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let own_group = !stdin().is_terminal();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("FENCING_TOKEN", lease.token().to_string())
            .env("FENCING_RESOURCE", lease.resource().as_str());
        if own_group {
            command.process_group(0);
        }
        let suspension = own_group.then(Signals::suspension).flatten();
        let child = command.spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("the command has no process id"))?;
        let target = if own_group { Target::Group(pid) } else { Target::Process(pid) };
        Ok(Running { child, target, suspension })
    }

    /// Returns whom a guard has to stop.
    pub(super) fn target(&self) -> Target {
        self.target
    }

    /// Waits for the command's end. Cancel safe.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Passes a signal on, but not INT and QUIT where the terminal has already sent them to
    /// the command.
    pub(super) fn pass_on(&self, signal: Signal) {
        match self.target {
            Target::Process(_) if matches!(signal, Signal::INT | Signal::QUIT) => {}
            target if self.child.id().is_some() => target.signal(signal),
            _ => {}
        }
    }

    /// Stops the group and this process until this one is continued: the command must not go
    /// on while nobody renews its lease. In the terminal's own group the terminal has stopped
    /// both.
    pub(super) fn suspend(&self) {
        if self.child.id().is_some() {
            self.target.signal(Signal::STOP);
            let _ = kill_process(getpid(), Signal::STOP);
            self.target.signal(Signal::CONT);
        }
    }

    /// Sends SIGTERM, and SIGKILL to the processes that are left after [`GRACE`]. Cancel safe.
    pub(super) async fn stop(&mut self) {
        let end = Instant::now() + GRACE;
        let everybody = self.target.everybody();
        everybody.signal(Signal::TERM);
        // A stopped process takes SIGTERM only when it goes on.
        everybody.signal(Signal::CONT);
        loop {
            // Reaps the command: an unreaped one never seems gone.
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended && everybody.gone() {
                return;
            }
            if Instant::now() >= end {
                everybody.signal(Signal::KILL);
                let _ = self.child.wait().await;
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Returns the exit status that reports the command's own.
pub(super) fn status(ended: ExitStatus) -> u8 {
    match (ended.code(), ended.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => exit::by_signal(signal),
        (None, None) => u8::MAX,
    }
}
