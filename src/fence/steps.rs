//! The steps of an admission: what needs no wait, and the rest.

use std::error::Error;
use std::time::{Duration, Instant as StdInstant};

use fencing_protocol::{Resource, Token};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span};

use super::check::{Asked, NotIssued};
use super::gate::Flight;
use super::{Admission, Fence, FenceError, LONGEST_LIMIT, MarksError, Stale};

/// How long the marks may take before the fence presses older requests to stop.
const PRESS_AFTER: Duration = Duration::from_millis(100);

/// How far an admission has come without a wait.
pub(crate) enum Begun {
    Ended(Result<Admission, FenceError>),
    Open(Open),
}

/// What is left of an admission.
pub(crate) struct Open {
    stage: Stage,
    span: Span,
    since: StdInstant,
}

enum Stage {
    /// The token may have to be asked about first. It is not in flight.
    Outside,
    /// The marks have not been asked.
    InFlight(Flight),
    /// The marks have let it pass, and it may have to wait for older ones.
    Raised(Flight),
    /// Nothing is left.
    Admitted(Flight),
}

impl Fence {
    /// Does of an admission what needs no wait, which is mostly all of it where the marks are in memory.
    pub(crate) fn begin(&self, resource: &Resource, token: Token) -> Begun {
        let span = tracing::debug_span!("fencing.admit", %resource, %token);
        let stage = span.in_scope(|| self.pass_now(resource, token));
        let outcome = match stage {
            Ok(Stage::Admitted(flight)) => Ok(self.admission(flight)),
            Ok(stage) => return Begun::Open(Open { stage, span, since: StdInstant::now() }),
            Err(error) => Err(error),
        };
        span.in_scope(|| self.refusals.note(Duration::ZERO, outcome.as_ref().map(drop)));
        Begun::Ended(outcome)
    }

    /// Does the rest of an admission.
    pub(crate) async fn finish(
        &self,
        resource: &Resource,
        token: Token,
        Open { stage, span, since }: Open,
    ) -> Result<Admission, FenceError> {
        let pass = async {
            let outcome = self.pass(resource, token, stage).await;
            self.refusals.note(since.elapsed(), outcome.as_ref().map(drop));
            outcome
        };
        pass.instrument(span).await
    }

    fn admission(&self, flight: Flight) -> Admission {
        Admission::new(flight, self.grace.is_some())
    }

    fn pass_now(&self, resource: &Resource, token: Token) -> Result<Stage, FenceError> {
        check_runtime()?;
        if token > self.ceiling || self.checks.is_some() {
            return Ok(Stage::Outside);
        }
        // It enters flight before the marks are asked: a request that passes them later sees
        // this one, however long it pauses in between.
        let flight = self.gate.enter(resource, token, self.grace)?;
        match self.marks.raise_now(resource, token) {
            None => Ok(Stage::InFlight(flight)),
            Some(raised) => {
                raised?;
                Ok(if flight.confirm() { Stage::Admitted(flight) } else { Stage::Raised(flight) })
            }
        }
    }

    async fn pass(
        &self,
        resource: &Resource,
        token: Token,
        stage: Stage,
    ) -> Result<Admission, FenceError> {
        // The future may have been moved out of its runtime since.
        check_runtime()?;
        let end = Instant::now() + self.limit.min(LONGEST_LIMIT);
        let (flight, question) = match stage {
            Stage::Admitted(flight) | Stage::Raised(flight) => return self.wait(flight, end).await,
            Stage::InFlight(flight) => (flight, None),
            Stage::Outside => {
                let question = self.check(resource, token, end).await?;
                // As above.
                (self.gate.enter(resource, token, self.grace)?, question)
            }
        };
        match timeout_at(end, self.raise(&flight)).await {
            Ok(raised) => raised?,
            Err(_) => return Err(FenceError::Unreachable(self.too_late(question.is_some()))),
        }
        flight.confirm();
        drop(question);
        self.wait(flight, end).await
    }

    /// Waits until nothing older is in flight.
    async fn wait(&self, flight: Flight, end: Instant) -> Result<Admission, FenceError> {
        flight.find_room(self.waiters)?;
        match timeout_at(end, flight.alone()).await {
            Ok(alone) => alone?,
            Err(_) => return Err(flight.busy(self.limit)),
        }
        Ok(self.admission(flight))
    }

    /// Checks that the token was issued, if it would raise the mark. It is not in flight
    /// meanwhile: nobody waits for a token that was made up.
    pub(super) async fn check(
        &self,
        resource: &Resource,
        token: Token,
        end: Instant,
    ) -> Result<Option<Asked<'_>>, FenceError> {
        let refuse = |ceiling| NotIssued { resource: resource.clone(), presented: token, ceiling };
        if token > self.ceiling {
            return Err(refuse(Some(self.ceiling)).into());
        }
        let Some(checks) = &self.checks else { return Ok(None) };
        self.gate.check(resource, token)?;
        // An older request may hold up the marks: when this one is in flight, it may press that.
        let soon = end.min(Instant::now() + PRESS_AFTER);
        if let Ok(highest) = timeout_at(soon, self.marks.highest(resource)).await {
            let highest = highest?;
            Stale::check(resource, token, highest)?;
            if highest == Some(token) {
                return Ok(None);
            }
        }
        let asked = checks.was_issued(resource, token, self.limit.min(LONGEST_LIMIT) / 2);
        match timeout_at(end, asked).await.unwrap_or_else(|_| Err(self.too_late(false).into())) {
            Ok(Some(asked)) => Ok(Some(asked)),
            Ok(None) => Err(refuse(None).into()),
            Err(cause) => {
                Err(FenceError::Unchecked { resource: resource.clone(), presented: token, cause })
            }
        }
    }

    pub(super) fn too_late(&self, after_question: bool) -> Box<dyn Error + Send + Sync> {
        let left = if after_question { "what the lock service had left of " } else { "" };
        format!("no answer within {left}{} ms", self.limit.as_millis()).into()
    }

    /// Raises the mark. Where the marks are slow, the transaction of an older request may hold
    /// them: a fence that drops older requests presses them now.
    async fn raise(&self, flight: &Flight) -> Result<(), MarksError> {
        let mut raise = self.marks.raise(flight.resource(), flight.token);
        let since = flight.ask();
        let raised = match (self.grace, since) {
            (Some(grace), Some(since)) => {
                let due = (since + grace).max(Instant::now() + PRESS_AFTER);
                match timeout_at(due, &mut raise).await {
                    Ok(raised) => raised,
                    Err(_) => {
                        flight.press();
                        raise.await
                    }
                }
            }
            _ => raise.await,
        };
        if !matches!(raised, Err(MarksError::Unreachable(_))) {
            flight.answered();
        }
        raised
    }
}

/// Without a runtime the timers would panic, and only those who have to wait would hear of it.
pub(super) fn check_runtime() -> Result<(), FenceError> {
    // A handle is shared by all threads of a runtime, and to count one more is slow for that. Mostly this
    // runs in a task.
    if tokio::task::try_id().is_some() {
        return Ok(());
    }
    Handle::try_current().map(drop).map_err(|_| FenceError::NoRuntime)
}
