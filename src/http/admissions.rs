use std::sync::Weak;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending, select_all};

use super::Refusal;
use crate::fence::{Admission, Fence, Open, Stale, Stoppable};
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
    /// Reports whether a newer request may stop this one.
    pub(super) fn may_be_stopped(&self) -> bool {
        self.first.may_be_stopped()
    }

    /// Waits until the request must stop, because a newer token of one of its resources came.
    pub(super) fn superseded(&self) -> BoxFuture<'static, Stale> {
        match self.others.is_empty() {
            true => self.first.superseded().boxed(),
            false => any_superseded(std::iter::once(&self.first).chain(&self.others)),
        }
    }

    /// Lets newer requests stop this work from outside.
    pub(super) fn on_stop(&self, work: &Weak<dyn Stoppable>) -> Option<Stale> {
        let all = std::iter::once(&self.first).chain(&self.others);
        all.fold(None, |stale, admission| {
            let another = admission.on_stop(work.clone());
            stale.or(another)
        })
    }
}

fn any_superseded<'a>(held: impl Iterator<Item = &'a Admission>) -> BoxFuture<'static, Stale> {
    let all: Vec<_> = held.map(|admission| admission.superseded().boxed()).collect();
    match all.is_empty() {
        true => pending().boxed(),
        false => select_all(all).map(|(stale, ..)| stale).boxed(),
    }
}

/// Does the rest of what the fence has begun, for a request with one resource.
pub(super) async fn finish(
    fence: &Fence,
    Sequencer { resource, token }: Sequencer,
    open: Open,
) -> Result<Admissions, Refusal> {
    match fence.finish(&resource, token, open).await {
        Ok(admission) => Ok(admission.into()),
        Err(error) => Err(Refusal::before_the_handler(resource, token, error)),
    }
}

/// Admits the request to all its resources, or to none. `sequencers` are in the order of their
/// resources: two requests never wait for each other.
pub(super) async fn admit(
    fence: &Fence,
    sequencers: Vec<Sequencer>,
) -> Result<Admissions, Refusal> {
    let mut held: Vec<Admission> = Vec::new();
    let mut first = None;
    for Sequencer { resource, token } in sequencers {
        let superseded = any_superseded(first.iter().chain(&held));
        let admitted = tokio::select! {
            biased;
            // While this request waits for one resource, a newer one may wait for another that it holds.
            stale = superseded => return Err(Refusal::Stale(stale)),
            admitted = fence.admit(&resource, token) => admitted,
        };
        let refused = |error| Refusal::before_the_handler(resource, token, error);
        let admission = admitted.map_err(refused)?;
        match first {
            None => first = Some(admission),
            Some(_) => held.push(admission),
        }
    }
    match first {
        Some(first) => Ok(Admissions { first, others: held }),
        None => Err(Refusal::Missing),
    }
}
