use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::TryFutureExt;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::OnceCell;

use crate::resource::Resource;
use crate::sequencer::Sequencer;
use crate::token::Token;

/// Says for a lock service whether it has issued a token.
///
/// A [`Fence`](super::Fence) asks it before a token raises a mark: see
/// [`Fence::check_sequencer`](super::Fence::check_sequencer). Every async closure of this form is one:
///
/// ```
/// use fencing::fence::MemoryMarks;
/// use fencing::{Fence, Sequencer, Token};
///
/// # async fn newest_lease(_: &fencing::Resource) -> Result<Option<Token>, std::io::Error> { Ok(None) }
/// let fence = Fence::new(MemoryMarks::default()).check_sequencer(|shown: Sequencer| async move {
///     // What your lock service has granted last for this resource.
///     let newest = newest_lease(&shown.resource).await?;
///     Ok::<_, std::io::Error>(newest.is_some_and(|newest| shown.token <= newest))
/// });
/// ```
///
/// The table `fencing_leases` of `lock::sql::SqlLock` has the token of the newest lease of each
/// resource. Redis nodes tell their eras (`Lock::health`), and an era is the high nine digits of a token:
/// a token of a larger era than the newest of a majority was not issued. The example
/// `storage_service` has both, in `src/issued.rs`.
///
/// The name is that of Chubby's `CheckSequencer()`.
pub trait CheckSequencer: Send + Sync + 'static {
    /// Reports whether the lock service has ever issued this token for this resource. Its lease
    /// may have ended since: whether a token is stale is for the marks to say.
    ///
    /// **Fencing.** Answer `true` for every token that was issued: the answer has to count the
    /// lease that was granted a moment ago, so ask where leases are granted, not a replica
    /// behind it. If you cannot be exact, say `true` for tokens that may have been issued.
    ///
    /// # Errors
    /// Returns why the lock service could not be asked. The token does not pass then.
    ///
    /// # Cancel safety
    /// The fence drops the future when its limit is over.
    fn was_issued<'a>(
        &'a self,
        sequencer: &'a Sequencer,
    ) -> BoxFuture<'a, Result<bool, Box<dyn Error + Send + Sync>>>;
}

impl<F, A, E> CheckSequencer for F
where
    F: Fn(Sequencer) -> A + Send + Sync + 'static,
    A: Future<Output = Result<bool, E>> + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    fn was_issued<'a>(
        &'a self,
        sequencer: &'a Sequencer,
    ) -> BoxFuture<'a, Result<bool, Box<dyn Error + Send + Sync>>> {
        self(sequencer.clone()).map_err(Into::into).boxed()
    }
}

/// A refusal: the lock service has not issued this token for this resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "token {presented} of {resource} was not issued{}: acquire a lease of {resource} and send its \
     token", Above(.ceiling)
)]
#[non_exhaustive]
pub struct NotIssued {
    /// The resource that the request was about.
    pub resource: Resource,
    /// The token that was presented.
    pub presented: Token,
    /// The fence's [ceiling](super::Fence::ceiling), if the token is above it.
    pub ceiling: Option<Token>,
}

struct Above<'a>(&'a Option<Token>);

impl fmt::Display for Above<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |ceiling| write!(f, ", as it is above the ceiling of {ceiling}"))
    }
}

/// The questions to a lock service that are under way. Requests that come with one token at the
/// same time share one.
pub(super) struct Checks {
    check: Box<dyn CheckSequencer>,
    asked: Mutex<HashMap<Sequencer, Arc<OnceCell<bool>>>>,
}

impl Checks {
    pub(super) fn new(check: impl CheckSequencer) -> Checks {
        Checks { check: Box::new(check), asked: Mutex::default() }
    }

    /// Opens the question of this token, or joins it.
    pub(super) fn question(&self, resource: &Resource, token: Token) -> Question<'_> {
        let sequencer = Sequencer::new(resource.clone(), token);
        let answer = Arc::clone(self.asked().entry(sequencer.clone()).or_default());
        Question { checks: self, sequencer, answer: Some(answer) }
    }

    /// Counts the questions that are open.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.asked().len()
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<Sequencer, Arc<OnceCell<bool>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether one token was issued. The answer is kept for as long as somebody holds the question:
/// hold it until the mark is raised, after which nobody asks any more.
pub(super) struct Question<'a> {
    checks: &'a Checks,
    sequencer: Sequencer,
    answer: Option<Arc<OnceCell<bool>>>,
}

impl Question<'_> {
    pub(super) async fn was_issued(&self) -> Result<bool, Box<dyn Error + Send + Sync>> {
        let ask = || self.checks.check.was_issued(&self.sequencer);
        match &self.answer {
            Some(answer) => answer.get_or_try_init(ask).await.copied(),
            None => ask().await,
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut asked = self.checks.asked();
        self.answer = None;
        if asked.get(&self.sequencer).is_some_and(|answer| Arc::strong_count(answer) == 1) {
            asked.remove(&self.sequencer);
        }
    }
}
