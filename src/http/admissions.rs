use std::sync::Weak;

use fencing_protocol::NonEmpty;
use futures_util::future::{BoxFuture, Either, Ready, pending, ready, select_all};
use futures_util::{FutureExt, TryFutureExt};

use super::{Fenced, Refusal};
use crate::fence::{Admission, Fence, Stale, Stoppable};
use crate::sequencer::Sequencer;

/// What lets a request through. One without a token has no admissions.
#[derive(Default)]
pub(super) struct Passage {
    pub(super) admissions: Option<Admissions>,
    /// What a layer in shadow mode would have answered.
    pub(super) shadow: Option<Refusal>,
}

/// The answer of the fence. With marks in memory nobody waits for it.
pub(super) type AskedFence =
    Either<Ready<Result<Passage, Refusal>>, BoxFuture<'static, Result<Passage, Refusal>>>;

impl Passage {
    /// Asks the fence, and waits only if it has to.
    pub(super) fn ask(fence: &Fence, fenced: Fenced) -> AskedFence {
        let now = match fenced.is_alone() {
            true => fence.admit_now(&fenced.resource, fenced.token),
            false => None,
        };
        let admitted =
            |admissions| Passage { admissions: Some(Admissions(admissions)), shadow: None };
        match now {
            Some(Ok(admission)) => Either::Left(ready(Ok(admitted(NonEmpty::new(admission))))),
            Some(Err(error)) => {
                let refusal = Refusal::before_the_handler(fenced.resource, fenced.token, error);
                Either::Left(ready(Err(refusal)))
            }
            None => Either::Right(admit_all(fence.clone(), fenced).map_ok(admitted).boxed()),
        }
    }

    /// Asks the fence, and lets the request pass whatever the answer is.
    pub(super) async fn observe(fence: Fence, fenced: Fenced) -> Passage {
        let mut shadow = None;
        for Sequencer { resource, token } in fenced.in_order() {
            if let Err(error) = fence.observe(&resource, token).await {
                let refused = || Refusal::before_the_handler(resource, token, error);
                shadow.get_or_insert_with(refused);
            }
        }
        Passage::open(shadow)
    }

    /// Lets a request pass without a token, or in shadow mode one that would be refused.
    pub(super) fn open(shadow: Option<Refusal>) -> Passage {
        shadow.iter().for_each(Refusal::note_shadow);
        Passage { admissions: None, shadow }
    }
}

/// Admits the request to all its resources, or to none. All requests are admitted in the order of their
/// resources: no two wait for each other.
async fn admit_all(fence: Fence, fenced: Fenced) -> Result<NonEmpty<Admission>, Refusal> {
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
    NonEmpty::from_vec(admitted).ok_or(Refusal::Missing)
}

/// A request that the fence has admitted to all its resources. Most have one.
pub(super) struct Admissions(NonEmpty<Admission>);

impl Admissions {
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
