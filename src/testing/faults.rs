use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::protocol::{Fault, Reply, Request};

/// What a node has run, in order, and what it answered.
type Log = Vec<(Request, Result<Reply, Fault>)>;

/// The faults of one [`FaultyNode`](super::FaultyNode), to be switched at any time.
/// Clones switch the same node. They act on what is asked from then on, unless said
/// otherwise.
#[derive(Debug, Clone)]
pub struct Faults {
    switches: Arc<watch::Sender<Switches>>,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Switches {
    pub(super) refusing: bool,
    pub(super) hanging: bool,
    pub(super) losing: bool,
    pub(super) repeating: bool,
    pub(super) delay: Duration,
    /// How often the sessions were broken.
    pub(super) breaks: u64,
}

impl Default for Faults {
    fn default() -> Faults {
        let switches = Arc::new(watch::Sender::new(Switches::default()));
        Faults { switches, log: Arc::default() }
    }
}

impl Faults {
    /// New sessions are refused; open ones go on.
    pub fn refuse(&self, refuse: bool) {
        self.switches.send_modify(|switches| switches.refusing = refuse);
    }

    /// The node stands still, as with `SIGSTOP`: requests wait and nothing is answered.
    pub fn hang(&self) {
        self.switches.send_modify(|switches| switches.hanging = true);
    }

    /// The node goes on. Requests that waited run now, in their order, also those that
    /// nobody waits for any more and those of sessions that are gone.
    pub fn resume(&self) {
        self.switches.send_modify(|switches| switches.hanging = false);
    }

    /// Requests run, and their callers never hear of it.
    pub fn lose_replies(&self, lose: bool) {
        self.switches.send_modify(|switches| switches.losing = lose);
    }

    /// Replies come this much later.
    pub fn delay_replies(&self, delay: Duration) {
        self.switches.send_modify(|switches| switches.delay = delay);
    }

    /// Requests run twice, and the second answer is the one that is told.
    pub fn repeat(&self, repeat: bool) {
        self.switches.send_modify(|switches| switches.repeating = repeat);
    }

    /// Breaks the open sessions. What was asked over them before still runs.
    pub fn break_sessions(&self) {
        self.switches.send_modify(|switches| switches.breaks += 1);
    }

    /// No faults from now on; requests that waited run. Broken sessions stay broken.
    pub fn heal(&self) {
        self.switches.send_modify(|switches| {
            *switches = Switches { breaks: switches.breaks, ..Switches::default() };
        });
    }

    /// What has run so far, in order, and what the node answered.
    #[must_use]
    pub fn log(&self) -> Vec<(Request, Result<Reply, Fault>)> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn record(&self, request: Request, answer: &Result<Reply, Fault>) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push((request, answer.clone()));
    }

    pub(super) fn now(&self) -> Switches {
        *self.switches.borrow()
    }

    /// Waits until the node does not hang.
    pub(super) async fn awake(&self) {
        self.until(|switches| !switches.hanging).await;
    }

    /// Waits until sessions have been broken more than so many times.
    pub(super) async fn broken(&self, breaks: u64) {
        self.until(|switches| switches.breaks > breaks).await;
    }

    async fn until(&self, holds: impl Fn(&Switches) -> bool) {
        // It fails only without a sender, and this is one.
        let _ = self.switches.subscribe().wait_for(holds).await;
    }
}
