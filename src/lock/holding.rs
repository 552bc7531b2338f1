use std::sync::Arc;

use super::held_lock::{HeldLock, Renewed};
use super::standing::{Loss, Standing};
use crate::resource::Resource;
use crate::token::Token;

/// One held lease: what the lease and its watchdog share.
pub(super) struct Holding {
    pub(super) resource: Resource,
    pub(super) token: Token,
    pub(super) standing: Standing,
    pub(super) held: Arc<dyn HeldLock>,
}

impl Holding {
    /// Tries once to renew. A lease that another has superseded is over then.
    pub(super) async fn renew(&self) -> Renewed {
        let deadline = self.standing.deadline();
        let renewed = self.held.renew().await;
        match (&renewed, deadline) {
            (Renewed::Until(until), Ok(deadline)) => self.standing.renew(deadline, *until),
            (Renewed::Superseded, _) => self.lose(Loss::Superseded),
            _ => {}
        }
        renewed
    }

    /// Ends the lease, and says so in log and metrics.
    pub(super) fn lose(&self, loss: Loss) {
        if self.standing.close(loss) {
            let (resource, token) = (&self.resource, self.token);
            tracing::warn!(%resource, %token, %loss, "lease lost");
            metrics::counter!("fencing_leases_lost_total").increment(1);
        }
    }
}
