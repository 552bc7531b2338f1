use std::ffi::OsString;
use std::io::{self, IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use fencing::Lease;
use rustix::process::{
    Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process,
    test_kill_process_group,
};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::{exit, family};

/// What the command is: a process group, or one process where the group is the terminal's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Group(Pid),
    Process(Pid),
}

impl Target {
    /// Sends a signal. There may be nobody left to get it.
    pub(crate) fn signal(self, signal: Signal) {
        let _ = match self {
            Target::Group(group) => kill_process_group(group, signal),
            Target::Process(process) => kill_process(process, signal),
        };
    }

    pub(crate) fn is_group(self) -> bool {
        matches!(self, Target::Group(_))
    }

    /// Whom to stop: the group, or the process with all that descend from it.
    pub(crate) fn everybody(self) -> Everybody {
        match self {
            Target::Group(group) => Everybody::Group(group),
            Target::Process(process) => Everybody::Family(family::of(process)),
        }
    }
}

/// Who is stopped when the lease is lost, as they were when it was: a process that has
/// lost its parent is found no more.
pub(crate) enum Everybody {
    Group(Pid),
    Family(Vec<Pid>),
}

impl Everybody {
    /// Sends a signal. There may be nobody left to get it.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = match self {
            Everybody::Group(group) => kill_process_group(*group, signal),
            Everybody::Family(family) => {
                family.iter().map(|process| kill_process(*process, signal)).fold(Ok(()), Result::or)
            }
        };
    }

    /// Whether nobody is left.
    pub(crate) fn gone(&self) -> bool {
        match self {
            Everybody::Group(group) => test_kill_process_group(*group).is_err(),
            Everybody::Family(family) => {
                family.iter().all(|process| test_kill_process(*process).is_err())
            }
        }
    }
}

/// The command, as it runs under the lease.
pub(crate) struct Running {
    child: Child,
    target: Target,
}

impl Running {
    /// Starts it, in a process group of its own.
    ///
    /// From a terminal it stays in this one's group: another would have to be made the
    /// terminal's foreground group, and nobody could take the terminal back afterwards
    /// (a process in the background that tries is stopped by SIGTTOU).
    pub(crate) fn start(command: &[OsString], lease: &Lease) -> io::Result<Running> {
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
        let child = command.spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("the command has no process id"))?;
        let target = if own_group { Target::Group(pid) } else { Target::Process(pid) };
        Ok(Running { child, target })
    }

    pub(crate) fn target(&self) -> Target {
        self.target
    }

    /// Waits for its end. Cancel safe.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Passes a signal on. In the terminal's own group the terminal has done that with
    /// its own two signals.
    pub(crate) fn pass_on(&self, signal: Signal) {
        match self.target {
            Target::Process(_) if matches!(signal, Signal::INT | Signal::QUIT) => {}
            target if self.child.id().is_some() => target.signal(signal),
            _ => {}
        }
    }

    /// Stops the group and this process, until somebody continues this one: the command
    /// must not go on while nobody renews its lease. In the terminal's own group the
    /// terminal has stopped both.
    pub(crate) fn suspend(&self) {
        if self.child.id().is_some() {
            self.target.signal(Signal::STOP);
            let _ = kill_process(getpid(), Signal::STOP);
            self.target.signal(Signal::CONT);
        }
    }

    /// SIGTERM, then SIGKILL to whoever is left after `grace`. Cancel safe.
    pub(crate) async fn stop(&mut self, grace: Duration) {
        let end = Instant::now() + grace;
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

/// The exit status that stands for the command's own.
pub(crate) fn status(ended: ExitStatus) -> u8 {
    match (ended.code(), ended.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => exit::by_signal(signal),
        (None, None) => u8::MAX,
    }
}
