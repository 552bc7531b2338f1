use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use super::outstanding::OutstandingWork;

/// What a node's answer calls for, besides the caller who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The node has forgotten something.
    NotAdmitted(usize),
    /// The node's counts are to be collected.
    Collect(usize),
}

/// How many notices wait for the readmission; the next answer brings another.
const MOST: usize = 256;

/// What the lanes ring when the readmission is needed.
#[derive(Default)]
pub(super) struct Notices(Mutex<Option<mpsc::Sender<Rung>>>);

/// A notice, which is on its way until the readmission is done with it.
pub(super) type Rung = (Notice, OutstandingWork);

impl Notices {
    pub(super) fn ring(&self, notice: Notice, underway: OutstandingWork) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref() {
            let _ = sender.try_send((notice, underway));
        }
    }

    /// The notices, for a readmission, if there is none that still listens: the runtime of an
    /// earlier one may be gone.
    pub(super) fn unattended(&self) -> Option<mpsc::Receiver<Rung>> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return None;
        }
        let (notices, receiver) = mpsc::channel(MOST);
        *sender = Some(notices);
        Some(receiver)
    }
}
