use std::sync::Weak;

use fencing_protocol::NonEmpty;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending, select_all};

use super::{Fenced, Refusal};
use crate::fence::{Admission, Fence, Stale, Stoppable};
use crate::sequencer::Sequencer;

/// A request that the fence has admitted to all its resources. Most have one.
pub(super) struct Admissions(NonEmpty<Admission>);

impl From<Admission> for Admissions {
    fn from(first: Admission) -> Admissions {
        Admissions(NonEmpty::new(first))
    }
}

impl Admissions {
    /// Admits the request to all its resources, or to none. All requests are admitted in the order of their
    /// resources: no two wait for each other.
    pub(super) async fn wait(fence: Fence, fenced: Fenced) -> Result<Admissions, Refusal> {
        let mut admitted: Vec<Admission> = Vec::new();
        for Sequencer { resource, token } in fenced.in_order() {
            let admission = tokio::select! {
                biased;
                // While this request waits for one resource, a newer one may wait for another that it holds.
                stale = superseded(&admitted) => return Err(Refusal::Stale(stale)),
                admission = fence.admit_later(&resource, token) => admission,
            };
            let refused = |error| Refusal::before_the_handler(resource, token, error);
            admitted.push(admission.map_err(refused)?);
        }
        NonEmpty::from_vec(admitted).map(Admissions).ok_or(Refusal::Missing)
    }

    /// Reports whether a newer request may stop this one.
    pub(super) fn may_be_stopped(&self) -> bool {
        self.0.first().may_be_stopped()
    }

    /// Waits until the request must stop, because a newer token of one of its resources came.
    pub(super) fn superseded(&self) -> BoxFuture<'static, Stale> {
        superseded(&self.0)
    }

    /// Lets newer requests stop this work from outside. Returns the refusal if one has asked for that already.
    pub(super) fn on_stop(&self, work: &Weak<dyn Stoppable>) -> Option<Stale> {
        self.0.iter().fold(None, |stale, admission| {
            let another = admission.on_stop(work.clone());
            stale.or(another)
        })
    }
}

fn superseded<'a>(held: impl IntoIterator<Item = &'a Admission>) -> BoxFuture<'static, Stale> {
    let all: Vec<_> = held.into_iter().map(|one| one.superseded().boxed()).collect();
    match all.is_empty() {
        true => pending().boxed(),
        false => select_all(all).map(|(stale, ..)| stale).boxed(),
    }
}
