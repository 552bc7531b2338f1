use std::time::Duration;

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};

use super::family;

/// How long the command may take to end after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The command as it can be stopped: a process group, or one process where the group is the
/// terminal's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Group(Pid),
    Process(Pid),
}

impl Target {
    /// Sends a signal. There may be no process left to get it.
    pub(super) fn signal(self, signal: Signal) {
        let _ = match self {
            Target::Group(group) => kill_process_group(group, signal),
            Target::Process(process) => kill_process(process, signal),
        };
    }

    /// Returns whom to stop: the group, or the process with its descendants.
    pub(super) fn everybody(self) -> Everybody {
        match self {
            Target::Group(group) => Everybody::Group(group),
            Target::Process(process) => Everybody::Family(family::of(process)),
        }
    }
}

/// The processes that are stopped when the lease is lost. They are listed at that moment: a
/// process that has lost its parent could not be found later.
pub(super) enum Everybody {
    Group(Pid),
    Family(Vec<Pid>),
}

impl Everybody {
    /// Sends a signal. There may be no process left to get it.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = match self {
            Everybody::Group(group) => kill_process_group(*group, signal),
            Everybody::Family(family) => {
                family.iter().map(|process| kill_process(*process, signal)).fold(Ok(()), Result::or)
            }
        };
    }

    /// Returns whether no process is left.
    pub(super) fn gone(&self) -> bool {
        match self {
            Everybody::Group(group) => test_kill_process_group(*group).is_err(),
            Everybody::Family(family) => {
                family.iter().all(|process| test_kill_process(*process).is_err())
            }
        }
    }
}
