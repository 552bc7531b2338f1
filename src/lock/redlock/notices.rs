use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::outstanding::OutstandingWork;

/// What a node's answer asks the background task to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The node has forgotten: bring it back.
    NotAdmitted(usize),
    /// The node keeps too many counts: collect them.
    Collect(usize),
}

/// How many notices wait for the task. More are dropped: the next answer brings another.
const MOST: usize = 256;

/// The way from the lanes to the task that brings nodes back.
#[derive(Default)]
pub(super) struct Notices(Mutex<Option<mpsc::Sender<Pending>>>);

/// A notice, which counts as outstanding until the task is done with it.
pub(super) type Pending = (Notice, OutstandingWork);

impl Notices {
    pub(super) fn send(&self, notice: Notice, work: OutstandingWork) {
        let sender = self.0.lock();
        if let Some(sender) = sender.as_ref() {
            let _ = sender.try_send((notice, work));
        }
    }

    /// Returns the receiving end if no task holds one: the runtime of an earlier task may be gone.
    pub(super) fn unattended(&self) -> Option<mpsc::Receiver<Pending>> {
        let mut sender = self.0.lock();
        if sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return None;
        }
        let (notices, receiver) = mpsc::channel(MOST);
        *sender = Some(notices);
        Some(receiver)
    }
}
