use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use fencing_protocol::{Resource, Token};
use futures_util::future::Either;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::check::{NotIssued, Question};
use super::gate::RequestInFlight;
use super::{Fence, FenceError, Stale};

/// Time after which slow marks make the fence ask older requests to stop.
const SLOW_MARKS: Duration = Duration::from_millis(100);

impl Fence {
    /// Admits a request with `token`: asks whether it was issued, if the fence [does that](Fence::check_sequencer),
    /// raises the mark, then waits until no request with an older token is in flight. Equal tokens run side by side.
    ///
    /// Hold the [`Admission`] until the write is done. Poll the future inside a tokio runtime whose timers are enabled.
    ///
    /// # Errors
    /// A [`FenceError`]: [`Stale`](FenceError::Stale) if a newer token was seen. After any of them, write nothing.
    ///
    /// # Cancel safety
    /// If you drop the future, the mark may have been raised, and nothing stays in flight.
    ///
    /// **Fencing.** Once this has returned `Ok`, this fence and its clones admit no older token any more, and none is
    /// in flight. Nor do other processes on the same marks, but one that passed there before may still be writing.
    pub async fn admit(&self, resource: &Resource, token: Token) -> Result<Admission, FenceError> {
        match self.admit_now(resource, token) {
            Some(outcome) => outcome,
            None => self.admit_later(resource, token).await,
        }
    }

    /// Admits or refuses without a wait, as is usual with marks in memory. Returns `None` if the request
    /// has to wait: it is not in flight then, and [`admit_later`](Fence::admit_later) admits it.
    pub(crate) fn admit_now(&self, resource: &Resource, token: Token) -> Option<Result<Admission, FenceError>> {
        let outcome = self.pass_now(resource, token).transpose()?;
        let span = tracing::debug_span!("fencing.admit", %resource, %token);
        span.in_scope(|| self.outcomes.note(Duration::ZERO, outcome.as_ref().err()));
        Some(outcome)
    }

    /// Admits a request that may have to wait for the lock service, for the marks or for older requests.
    pub(crate) async fn admit_later(&self, resource: &Resource, token: Token) -> Result<Admission, FenceError> {
        let since = StdInstant::now();
        let pass = async {
            let outcome = self.pass(resource, token).await;
            self.outcomes.note(since.elapsed(), outcome.as_ref().err());
            outcome
        };
        pass.instrument(tracing::debug_span!("fencing.admit", %resource, %token)).await
    }

    /// Admits or refuses at once, as usual with marks in memory. `None`: the request must wait, and is not in flight.
    fn pass_now(&self, resource: &Resource, token: Token) -> Result<Option<Admission>, FenceError> {
        check_runtime()?;
        if token > self.ceiling || self.checks.is_some() || self.closed_for().is_some() {
            return Ok(None);
        }
        let request = self.gate.enter(resource, token, self.grace)?;
        let Some(raised) = self.marks.raise_now(resource, token) else { return Ok(None) };
        raised?;
        Ok(request.confirm().then(|| Admission::new(request, self.grace.is_some())))
    }

    async fn pass(&self, resource: &Resource, token: Token) -> Result<Admission, FenceError> {
        check_runtime()?;
        let end = Instant::now() + self.limit;
        let question = self.check(resource, token, end).await?;
        // It enters the gate before the marks are asked: one that passes them later sees it, however long it pauses.
        let mut request = self.gate.enter(resource, token, self.grace)?;
        self.in_time(end, &question, self.raise(resource, &mut request)).await?;
        request.confirm();
        drop(question);
        request.check_waiters(self.waiters)?;
        timeout_at(end, request.alone()).await.map_err(|_| request.busy(self.limit))??;
        Ok(Admission::new(request, self.grace.is_some()))
    }

    fn closed_for(&self) -> Option<Duration> {
        self.closed_until?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Checks that the token was issued, if it would raise the mark. The request is not in flight
    /// meanwhile: no request waits for a token that was made up. Hold the question until the mark is raised.
    pub(super) async fn check(
        &self,
        resource: &Resource,
        token: Token,
        end: Instant,
    ) -> Result<Option<Arc<Question>>, FenceError> {
        let refuse = |ceiling| NotIssued { resource: resource.clone(), presented: token, ceiling };
        if token > self.ceiling {
            return Err(refuse(Some(self.ceiling)).into());
        }
        if let Some(left) = self.closed_for() {
            return Err(FenceError::Quarantine { left });
        }
        let Some(checks) = &self.checks else { return Ok(None) };
        self.gate.check(resource, token)?;
        // An older request may hold up the marks. Only a request in flight can ask it to stop.
        let soon = end.min(Instant::now() + SLOW_MARKS);
        if let Ok(highest) = timeout_at(soon, self.marks.highest(resource)).await {
            let highest = highest?;
            Stale::check(resource, token, highest)?;
            if highest == Some(token) {
                return Ok(None);
            }
        }
        let asked = checks.was_issued(resource, token, self.limit / 2);
        match timeout_at(end, asked).await.unwrap_or_else(|_| Err(self.too_late("").into())) {
            Ok(Some(question)) => Ok(Some(question)),
            Ok(None) => Err(refuse(None).into()),
            Err(cause) => Err(FenceError::Unchecked { resource: resource.clone(), presented: token, cause }),
        }
    }

    pub(super) async fn in_time(
        &self,
        end: Instant,
        question: &Option<Arc<Question>>,
        raise: impl Future<Output = Result<(), FenceError>>,
    ) -> Result<(), FenceError> {
        timeout_at(end, raise).await.unwrap_or_else(|_| {
            let left = question.as_ref().map_or("", |_| "what the lock service had left of ");
            Err(FenceError::Unreachable(self.too_late(left)))
        })
    }

    fn too_late(&self, left: &str) -> Box<dyn Error + Send + Sync> {
        format!("no answer within {left}{} ms", self.limit.as_millis()).into()
    }

    /// Raises the mark. Slow marks may be held by an older request's transaction: with a grace, it is asked to stop.
    async fn raise(&self, resource: &Resource, request: &mut RequestInFlight) -> Result<(), FenceError> {
        let mut raise = self.marks.raise(resource, request.token);
        let unanswered_since = request.ask_marks();
        let raised = match self.grace {
            None => raise.await,
            Some(grace) => {
                let due = (unanswered_since + grace).max(Instant::now() + SLOW_MARKS);
                match timeout_at(due, &mut raise).await {
                    Ok(raised) => raised,
                    Err(_) => {
                        request.press();
                        raise.await
                    }
                }
            }
        };
        // An older request may also keep the connection that the raise waits for.
        if !matches!(raised, Err(FenceError::Unreachable(_) | FenceError::NoConnection(_))) {
            request.marks_answered();
        }
        raised
    }
}

/// Without a runtime the timers would panic, and only in requests that have to wait.
pub(super) fn check_runtime() -> Result<(), FenceError> {
    // All threads share the handle of a runtime, and its counter is slow for that. Most requests run in a task.
    if tokio::task::try_id().is_some() {
        return Ok(());
    }
    Handle::try_current().map(drop).map_err(|_| FenceError::NoRuntime)
}

/// A request that the fence has admitted. No newer token is admitted while you hold it: drop it after the write.
#[derive(derive_more::Debug)]
#[debug("Admission {{ resource: {:?}, token: {:?} }}", request.resource, request.token)]
#[must_use = "the request is in flight for as long as its admission is held"]
pub struct Admission {
    pub(super) request: RequestInFlight,
    /// Whether the fence [drops older requests](super::Fence::drop_older_after).
    pub(crate) may_be_stopped: bool,
}

impl Admission {
    fn new(request: RequestInFlight, may_be_stopped: bool) -> Admission {
        metrics::gauge!("fencing_in_flight").increment(1.0);
        Admission { request, may_be_stopped }
    }

    /// Returns the resource that the request was admitted to.
    pub fn resource(&self) -> &Resource {
        &self.request.resource
    }

    /// Returns the token that was admitted.
    pub fn token(&self) -> Token {
        self.request.token
    }

    /// Waits until this request must stop because a newer token arrived and its [grace](super::Fence::drop_older_after)
    /// has ended: forever, if the fence has none. The newer request waits until this admission is dropped.
    ///
    /// # Cancel safety
    /// You may await any number of these futures, and drop them at any time.
    pub fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        match self.may_be_stopped {
            true => Either::Left(self.request.newer(|tokens| tokens.stop)),
            false => Either::Right(pending()),
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        metrics::gauge!("fencing_in_flight").decrement(1.0);
    }
}
