use std::sync::Weak;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending, select_all};

use super::{Fenced, Refusal};
use crate::fence::{Admission, Fence, Stale, Stoppable};
use crate::sequencer::Sequencer;

/// A request that the fence has admitted to all its resources. Most have one.
pub(super) struct Admissions {
    first: Admission,
    others: Vec<Admission>,
}

impl From<Admission> for Admissions {
    fn from(first: Admission) -> Admissions {
        Admissions { first, others: Vec::new() }
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
        let mut admitted = admitted.into_iter();
        let first = admitted.next().ok_or(Refusal::Missing)?;
        Ok(Admissions { first, others: admitted.collect() })
    }

    fn all(&self) -> impl Iterator<Item = &Admission> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Reports whether a newer request may stop this one.
    pub(super) fn may_be_stopped(&self) -> bool {
        self.first.may_be_stopped()
    }

    /// Waits until the request must stop, because a newer token of one of its resources came.
    pub(super) fn superseded(&self) -> BoxFuture<'static, Stale> {
        superseded(self.all())
    }

    /// Lets newer requests stop this work from outside. Returns the refusal if one has asked for that already.
    pub(super) fn on_stop(&self, work: &Weak<dyn Stoppable>) -> Option<Stale> {
        self.all().fold(None, |stale, admission| {
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
