use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Reply, Request};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The requests that a node has run, in order, and its answers.
type RequestLog = Vec<(Request, Result<Reply, Fault>)>;

/// The faults of one [`FaultyNode`](super::FaultyNode), which you switch at any time. Clones switch the same node.
/// Unless a method says otherwise, a fault acts on requests that are sent from then on.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    switches: Arc<watch::Sender<Switches>>,
    log: Arc<Mutex<RequestLog>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Switches {
    pub(super) refusing: bool,
    pub(super) hanging: bool,
    pub(super) losing: bool,
    pub(super) repeating: bool,
    pub(super) mute: bool,
    pub(super) forging: bool,
    pub(super) delay: Duration,
    /// How often the sessions were broken.
    pub(super) breaks: u64,
}

impl Faults {
    /// Refuses new sessions, or accepts them again. Open ones continue.
    pub fn refuse(&self, refuse: bool) {
        self.switches.send_modify(|switches| switches.refusing = refuse);
    }

    /// Stops the node, as `SIGSTOP` does: requests wait, and none is answered.
    pub fn hang(&self) {
        self.switches.send_modify(|switches| switches.hanging = true);
    }

    /// Resumes the node. Requests that waited run now, in their order, even if their callers or
    /// their sessions are gone.
    pub fn resume(&self) {
        self.switches.send_modify(|switches| switches.hanging = false);
    }

    /// Loses replies, or delivers them again: requests run, and their callers get no answer.
    pub fn lose_replies(&self, lose: bool) {
        self.switches.send_modify(|switches| switches.losing = lose);
    }

    /// Drops notifications from the node to waiting clients, or delivers them again.
    pub fn lose_notifications(&self, lose: bool) {
        self.switches.send_modify(|switches| switches.mute = lose);
    }

    /// Sends a forged release notification to waiting clients every millisecond; or stops that.
    pub fn forge_notifications(&self, forge: bool) {
        self.switches.send_modify(|switches| switches.forging = forge);
    }

    /// Delays each reply by this long.
    pub fn delay_replies(&self, delay: Duration) {
        self.switches.send_modify(|switches| switches.delay = delay);
    }

    /// Runs each request twice and answers as the second run did, or stops doing so.
    pub fn repeat(&self, repeat: bool) {
        self.switches.send_modify(|switches| switches.repeating = repeat);
    }

    /// Breaks the open sessions. Requests that were sent over them before still run.
    pub fn break_sessions(&self) {
        self.switches.send_modify(|switches| switches.breaks += 1);
    }

    /// Ends all faults. Requests that waited run. Broken sessions stay broken.
    pub fn heal(&self) {
        self.switches.send_modify(|switches| {
            *switches = Switches { breaks: switches.breaks, ..Switches::default() };
        });
    }

    /// Returns the requests that have run so far, in order, and the node's answers.
    #[must_use]
    pub fn log(&self) -> Vec<(Request, Result<Reply, Fault>)> {
        self.log.lock().clone()
    }

    pub(super) fn record(&self, requests: &[Request], answers: &[Result<Reply, Fault>]) {
        self.log.lock().extend(requests.iter().cloned().zip(answers.iter().cloned()));
    }

    pub(super) fn now(&self) -> Switches {
        *self.switches.borrow()
    }

    /// Waits until the node does not hang.
    pub(super) async fn awake(&self) {
        self.until(|switches| !switches.hanging).await;
    }

    /// Waits until the sessions have been broken more than `breaks` times.
    pub(super) async fn broken(&self, breaks: u64) {
        self.until(|switches| switches.breaks > breaks).await;
    }

    /// Waits until notifications of the node are forged.
    pub(super) async fn forging(&self) {
        self.until(|switches| switches.forging).await;
    }

    async fn until(&self, holds: impl Fn(&Switches) -> bool) {
        // It fails only if there is no sender, and `self` holds one.
        let _ = self.switches.subscribe().wait_for(holds).await;
    }
}
