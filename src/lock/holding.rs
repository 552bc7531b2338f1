use std::sync::Arc;

use super::held_lock::{HeldLock, Renewed};
use super::standing::{Loss, Standing};
use crate::resource::Resource;
use crate::token::Token;

/// One held lease: what the lease and its watchdog share.
pub(super) struct Holding {
    pub(super) resource: Resource,
    pub(super) token: Token,
    pub(super) standing: Arc<Standing>,
    pub(super) held: Arc<dyn HeldLock>,
}

impl Holding {
    /// Tries once to renew. A lease that another has superseded is over then.
    pub(super) async fn renew(&self) -> Renewed {
        let renewed = self.held.renew().await;
        match &renewed {
            Renewed::Until(until) => self.standing.renew(*until),
            Renewed::Superseded => drop(self.standing.close(Loss::Superseded)),
            Renewed::Failed(_) => {}
        }
        renewed
    }
}
