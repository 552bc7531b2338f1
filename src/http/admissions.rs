use futures_util::future::{BoxFuture, Either, Ready, pending, ready, select_all};
use futures_util::{FutureExt, TryFutureExt};
use http::StatusCode;
use smallvec::SmallVec;

use super::{Fenced, Refusal};
use crate::fence::{Admission, Fence, Stale};
use crate::sequencer::Sequencer;

/// The admissions of a request to all its resources. Most have one, and a request without a token has none.
pub(super) type Admissions = SmallVec<[Admission; 1]>;

/// What the fence has let through. Until this is dropped, the request is in flight.
#[derive(Default)]
pub struct Passage {
    pub(super) admissions: Admissions,
    /// The answer that a layer in shadow mode did not give.
    pub(super) shadow: Option<Refusal>,
}

/// The answer of the fence. With marks in memory there is no wait.
pub(super) type AskedFence = Either<Ready<Result<Passage, Refusal>>, BoxFuture<'static, Result<Passage, Refusal>>>;

impl Passage {
    /// Reports whether newer requests wait for this one.
    pub fn is_fenced(&self) -> bool {
        !self.admissions.is_empty()
    }

    /// Waits until a newer token of one of the resources has passed the marks.
    pub fn overtaken(&self) -> impl Future<Output = ()> + Send + 'static {
        first(self.admissions.iter().map(|one| one.overtaken().boxed())).map(drop)
    }

    /// Returns the status that a layer in shadow mode would have answered with.
    pub fn shadow(&self) -> Option<StatusCode> {
        self.shadow.as_ref().map(Refusal::status)
    }

    /// Asks the fence about what a request carries, and waits only if it has to.
    pub(super) fn ask(fence: &Fence, read: Result<Option<Fenced>, Refusal>, shadow: bool) -> AskedFence {
        match read {
            Ok(Some(fenced)) if shadow => Either::Right(Passage::observe(fence.clone(), fenced).map(Ok).boxed()),
            Ok(Some(fenced)) => Passage::admit(fence, fenced),
            Err(refusal) if !shadow => {
                refusal.count();
                Either::Left(ready(Err(refusal)))
            }
            none => Either::Left(ready(Ok(Passage::open(none.err())))),
        }
    }

    fn admit(fence: &Fence, fenced: Fenced) -> AskedFence {
        let now = match fenced.is_alone() {
            true => fence.admit_now(&fenced.resource, fenced.token),
            false => None,
        };
        let admitted = |admissions: Admissions| Passage { admissions, shadow: None };
        match now {
            Some(Ok(admission)) => Either::Left(ready(Ok(admitted([admission].into())))),
            Some(Err(error)) => {
                let refusal = Refusal::before_the_handler(fenced.resource, fenced.token, error);
                Either::Left(ready(Err(refusal)))
            }
            None => Either::Right(admit_all(fence.clone(), fenced).map_ok(admitted).boxed()),
        }
    }

    /// Asks the fence, and lets the request pass whatever the answer is.
    async fn observe(fence: Fence, fenced: Fenced) -> Passage {
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
    fn open(shadow: Option<Refusal>) -> Passage {
        shadow.iter().for_each(Refusal::note_shadow);
        Passage { admissions: Admissions::new(), shadow }
    }
}

/// Admits the request to all its resources, or to none, in their order: no two requests wait for each other.
async fn admit_all(fence: Fence, fenced: Fenced) -> Result<Admissions, Refusal> {
    let mut admitted = Admissions::new();
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
    Ok(admitted)
}

/// Waits until a request with these admissions must stop.
pub(super) fn superseded(admissions: &[Admission]) -> BoxFuture<'static, Stale> {
    first(admissions.iter().map(|one| one.superseded().boxed()))
}

fn first(all: impl Iterator<Item = BoxFuture<'static, Stale>>) -> BoxFuture<'static, Stale> {
    let all: Vec<_> = all.collect();
    if all.is_empty() { pending().boxed() } else { select_all(all).map(|(stale, ..)| stale).boxed() }
}
