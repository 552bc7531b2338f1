//! What only the HTTP layer asks of a fence.

use std::sync::Weak;

use fencing_protocol::{Resource, Token};

use super::admit::check_runtime;
use super::gate::Stoppable;
use super::{Admission, Fence, FenceError, Stale};

impl Fence {
    /// Returns what the fence would answer to a request with `token`, and raises the mark. It waits for
    /// no request, and no request waits for it.
    pub(crate) async fn observe(
        &self,
        resource: &Resource,
        token: Token,
    ) -> Result<(), FenceError> {
        check_runtime()?;
        let end = self.end();
        let question = self.check(resource, token, end).await?;
        self.in_time(end, &question, self.marks.raise(resource, token)).await
    }
}

impl Admission {
    /// Reports whether newer requests may stop this one.
    pub(crate) fn may_be_stopped(&self) -> bool {
        self.drops_older
    }

    /// Lets newer requests stop this work from outside, if the fence drops older ones.
    /// Returns the refusal if a newer request has asked for that already.
    pub(crate) fn on_stop(&self, work: Weak<dyn Stoppable>) -> Option<Stale> {
        if !self.drops_older {
            return None;
        }
        self.request.at_gate(|gate| {
            let stale = self.request.check(gate.tokens.stop).err();
            if stale.is_none() {
                gate.contention().stoppable.insert(self.request.request_key(), work);
            }
            stale
        })
    }
}
