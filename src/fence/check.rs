use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use futures_util::TryFutureExt;
use futures_util::future::{AbortHandle, BoxFuture, FutureExt, Shared, abortable};
use tokio::time::{Instant, timeout_at};

use crate::sequencer::Sequencer;

/// Asks a lock service whether it has issued a token.
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
/// resource. The example `storage_service` asks it, in `src/issued.rs`.
///
/// **Redis nodes cannot say it exactly.** They report their eras (`Lock::health`), and an era is the high
/// nine digits of a token: a token whose era is larger than the newest of a majority was not issued. A
/// forged token of the newest era passes such a check, which the example makes as well. It shuts out
/// honest clients until the next era begins, or until their tokens have passed it. Keep a record of the
/// leases that you hand out, or put the layer behind authentication.
///
/// The name is that of Chubby's `CheckSequencer()`, which asks something else: whether the lock is still
/// held. This asks whether the token was ever issued.
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
    /// The fence drops the future when nobody waits for the answer any more, because limits have
    /// run out or requests were dropped. It also drops it when it is asked about too many tokens.
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
#[error("token {presented} of {resource} was not issued{}", Above(.resource, .ceiling))]
#[non_exhaustive]
pub struct NotIssued {
    /// The resource that the request was about.
    pub resource: Resource,
    /// The token that was presented.
    pub presented: Token,
    /// The fence's [ceiling](super::Fence::ceiling), if the token is above it.
    pub ceiling: Option<Token>,
}

struct Above<'a>(&'a Resource, &'a Option<Token>);

impl fmt::Display for Above<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(ceiling) => write!(f, ": it is above the ceiling of {ceiling}"),
            None => write!(f, ": acquire a lease of {} and send its token", self.0),
        }
    }
}

/// About how many tokens of one resource a fence asks at a time: one or two are honest.
const TOKENS_OF_RESOURCE: usize = 16;
/// About how many tokens a fence asks at a time.
const TOKENS: usize = 1000;

type Cause = Arc<dyn Error + Send + Sync>;

/// The questions to a lock service that are under way. Requests that come with one token at the
/// same time share one.
pub(super) struct Checks {
    check: Arc<dyn CheckSequencer>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// How many questions were ever begun.
    begun: u64,
    /// How many tokens are asked about.
    tokens: usize,
    /// The newest question of each token.
    questions: HashMap<Resource, BTreeMap<Token, Kept>>,
}

struct Kept {
    question: Question,
    /// How many requests hold it.
    holders: usize,
    abort: AbortHandle,
}

impl Open {
    /// Finds room for one token more. A token that was issued is smaller than all that were not yet:
    /// the largest of the resource gives way, and a forger keeps no holder from being asked about.
    fn find_room(&mut self, resource: &Resource, token: Token) -> Result<(), Cause> {
        let questions = self.questions.get_mut(resource);
        let of_resource = questions.as_ref().map_or(0, |questions| questions.len());
        if of_resource < TOKENS_OF_RESOURCE && self.tokens < TOKENS {
            return Ok(());
        }
        match questions.and_then(|questions| questions.last_entry()) {
            Some(largest) if *largest.key() > token => {
                largest.remove().abort.abort();
                self.tokens -= 1;
                Ok(())
            }
            _ => Err(crowded()),
        }
    }

    fn kept(&mut self, sequencer: &Sequencer) -> Option<&mut Kept> {
        self.questions.get_mut(&sequencer.resource)?.get_mut(&sequencer.token)
    }

    fn remove(&mut self, sequencer: &Sequencer) {
        let Some(questions) = self.questions.get_mut(&sequencer.resource) else { return };
        if questions.remove(&sequencer.token).is_some() {
            self.tokens -= 1;
        }
        if questions.is_empty() {
            self.questions.remove(&sequencer.resource);
        }
    }
}

fn crowded() -> Cause {
    Arc::from(Box::from("it is being asked about too many tokens already; try again later"))
}

/// Whether one token was issued. All requests that wait for the answer drive it, so that none depends on
/// the first.
#[derive(Clone)]
struct Question {
    /// How many were begun before it.
    number: u64,
    since: Instant,
    answer: Shared<BoxFuture<'static, Result<bool, Cause>>>,
}

impl Checks {
    pub(super) fn new(check: impl CheckSequencer) -> Checks {
        Checks { check: Arc::new(check), open: Mutex::default() }
    }

    /// Asks whether the token was issued, or joins those who ask already. A question that has
    /// no answer after `patience` is asked once more. If the token was issued, hold what this
    /// returns until the mark is raised, after which nobody asks any more.
    pub(super) async fn was_issued(
        &self,
        resource: &Resource,
        token: Token,
        patience: Duration,
    ) -> Result<Option<Asked<'_>>, Cause> {
        let sequencer = Sequencer::new(resource.clone(), token);
        let came = self.open().begun;
        let first = self.ask(&sequencer, 0)?;
        match timeout_at(first.question.since + patience, first.answer()).await {
            // It was asked before this request came: the token may have been issued since.
            Ok(Ok(false)) if first.question.number < came => {}
            Ok(answer) => return Ok(answer?.then_some(first)),
            Err(_) => {}
        }
        let second = self.ask(&sequencer, came.max(first.question.number + 1))?;
        let first_says_yes = async {
            if !matches!(first.answer().await, Ok(true)) {
                pending().await
            }
        };
        tokio::select! {
            biased;
            () = first_says_yes => {}
            answer = second.answer() => return Ok(answer?.then_some(second)),
        }
        Ok(Some(first))
    }

    /// Joins the newest question of this token, or begins one if that has a number below `least`.
    fn ask(&self, sequencer: &Sequencer, least: u64) -> Result<Asked<'_>, Cause> {
        let mut open = self.open();
        let question = match open.kept(sequencer) {
            Some(kept) if kept.question.number >= least => {
                kept.holders += 1;
                kept.question.clone()
            }
            kept => {
                if kept.is_none() {
                    open.find_room(&sequencer.resource, sequencer.token)?;
                    open.tokens += 1;
                }
                let (question, abort) = self.begin(sequencer.clone(), open.begun);
                open.begun += 1;
                let kept = Kept { question: question.clone(), holders: 1, abort };
                let questions = open.questions.entry(sequencer.resource.clone()).or_default();
                questions.insert(sequencer.token, kept);
                question
            }
        };
        Ok(Asked { checks: self, sequencer: sequencer.clone(), question })
    }

    fn begin(&self, sequencer: Sequencer, number: u64) -> (Question, AbortHandle) {
        let check = Arc::clone(&self.check);
        let answer = async move { check.was_issued(&sequencer).await.map_err(Arc::from) };
        let (answer, abort) = abortable(answer);
        let answer = answer.map(|answer| answer.unwrap_or_else(|_| Err(crowded())));
        let answer = answer.boxed().shared();
        (Question { number, since: Instant::now(), answer }, abort)
    }

    /// Counts the questions that are open.
    #[cfg(test)]
    pub(super) fn open_questions(&self) -> usize {
        let open = self.open();
        assert_eq!(open.tokens, open.questions.values().map(BTreeMap::len).sum::<usize>());
        open.tokens
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is open, for as long as somebody holds it.
pub(super) struct Asked<'a> {
    checks: &'a Checks,
    sequencer: Sequencer,
    question: Question,
}

impl Asked<'_> {
    async fn answer(&self) -> Result<bool, Cause> {
        self.question.answer.clone().await
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut open = self.checks.open();
        let Some(kept) = open.kept(&self.sequencer) else { return };
        if kept.question.number != self.question.number {
            return;
        }
        kept.holders -= 1;
        if kept.holders == 0 {
            open.remove(&self.sequencer);
        }
    }
}
