use std::collections::BTreeMap;
use std::error::Error;
use std::future::{Future, pending};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use futures_util::TryFutureExt;
use futures_util::future::{AbortHandle, BoxFuture, FutureExt, Shared, abortable};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::Fence;
use crate::sequencer::Sequencer;

impl Fence {
    /// Asks the lock service about every token that would raise a mark: was it ever issued for this resource? Its lease
    /// may have ended since: the marks decide whether it is stale. A token that was not issued is refused
    /// ([`NotIssued`]), and so is every such token while the lock service cannot be asked
    /// ([`Unchecked`](super::FenceError::Unchecked)). Tokens that equal their mark are not asked about again, and lower
    /// ones are stale. Default: the fence trusts every token.
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
    /// It asks about 16 tokens of one resource at a time, and about 1000 in all, each at most twice.
    /// Among those of one resource the smallest come first: tokens that were issued are smaller than
    /// those that were not. The others are `Unchecked` at once.
    ///
    /// **Fencing.** Answer `true` for every token that was issued: the answer must include the latest lease, so ask the
    /// service that grants leases, not a lagging replica. If in doubt, answer `true`.
    ///
    /// Without it, every client that may send requests can forge a large token, and lock out all
    /// others for good. It costs one more read of the mark for each request, and one check for each new token.
    /// If that read takes more than 100 ms, the fence checks the token anyway. It does not show that the
    /// sender holds the lease: a client that overhears or guesses another's token may send it.
    ///
    /// **Redis nodes are not exact.** They report their eras (`Lock::health`), and an era is the high nine digits of a
    /// token: a token whose era is larger than the newest of a majority was not issued. A forged token of the newest
    /// era passes such a check, which the example makes as well. It locks out honest clients until the next era begins,
    /// or until their tokens have passed it. Keep a record of granted leases, or put the layer behind authentication.
    ///
    /// Give the marks and the lock service connections that no handler uses, such as a separate pool. A handler that
    /// waits behind the fence with a connection of a shared pool may block the requests that could end its wait.
    ///
    /// **Cancel safety.** The fence drops the future of an answer when no request waits for it any more, because limits
    /// have run out or requests were dropped, and when it is asked about too many tokens.
    ///
    /// Named after Chubby's `CheckSequencer()`, which checks that a lock is still held; this, that a token was issued.
    pub fn check_sequencer<F, A, E>(self, check: F) -> Fence
    where
        F: Fn(Sequencer) -> A + Send + Sync + 'static,
        A: Future<Output = Result<bool, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let check = move |shown| check(shown).map_err(|error| Cause::from(error.into())).boxed();
        let checks = Checks { check: Arc::new(check), open: Arc::default() };
        Fence { checks: Some(Arc::new(checks)), ..self }
    }
}

/// A refusal: the lock service has not issued this token for this resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("token {presented} of {resource} was not issued: {}", match .ceiling {
    Some(ceiling) => format!("it is above the ceiling of {ceiling}"),
    None => format!("acquire a lease of {} and send its token", .resource),
})]
#[non_exhaustive]
pub struct NotIssued {
    /// The resource of the request.
    pub resource: Resource,
    /// The presented token.
    pub presented: Token,
    /// The fence's [ceiling](super::Fence::ceiling), if the token is above it.
    pub ceiling: Option<Token>,
}

/// The number of tokens of one resource that a fence asks about at a time: one or two are honest.
const MAX_TOKENS_OF_RESOURCE: usize = 16;
const MAX_TOKENS: usize = 1000;

type Cause = Arc<dyn Error + Send + Sync>;
type Answer = BoxFuture<'static, Result<bool, Cause>>;

/// The checks in progress. Concurrent requests with one token share one.
pub(super) struct Checks {
    check: Arc<dyn Fn(Sequencer) -> Answer + Send + Sync>,
    pub(super) open: Arc<Mutex<OpenQuestions>>,
}

#[derive(Default)]
pub(super) struct OpenQuestions {
    /// The number of checks ever begun.
    begun: u64,
    /// The newest question of each token.
    pub(super) newest: BTreeMap<Sequencer, NewestQuestion>,
}

pub(super) struct NewestQuestion {
    number: u64,
    question: Weak<Question>,
    abort: AbortHandle,
}

impl OpenQuestions {
    /// Makes room for one more token. It evicts the largest token of the resource with the most tokens, or of this one:
    /// an issued token is smaller than all later ones. To block a holder, a forger needs a thousand resource names.
    fn find_room(&mut self, sequencer: &Sequencer) -> Result<(), Cause> {
        let [first, last] = [Token::MIN, Token::MAX].map(|token| Sequencer::new(sequencer.resource.clone(), token));
        let own: Vec<_> = self.newest.range(first..=last).map(|(asked, _)| asked).collect();
        if self.newest.len() < MAX_TOKENS && own.len() < MAX_TOKENS_OF_RESOURCE {
            return Ok(());
        }
        // The keys are sorted: the tokens of one resource are adjacent, and the largest is last.
        let all: Vec<_> = self.newest.keys().collect();
        let of_one = all.chunk_by(|one, next| one.resource == next.resource);
        let largest = match of_one.max_by_key(|tokens| tokens.len()) {
            Some(most) if most.len() > own.len() + 1 => most.last(),
            _ => own.last().filter(|largest| **largest > sequencer),
        };
        let largest = largest.copied().cloned();
        let evicted = largest.and_then(|largest| self.newest.remove(&largest));
        evicted.map(|evicted| evicted.abort.abort()).ok_or_else(crowded)
    }
}

fn crowded() -> Cause {
    Arc::from(Box::from("too many checks in progress; try again later"))
}

/// The check of one token. All requests that wait for the answer drive it, so that none depends on the
/// first. The question is open until the last of them drops it.
pub(super) struct Question {
    sequencer: Sequencer,
    /// The number of checks begun before it.
    number: u64,
    since: Instant,
    answer: Shared<Answer>,
    open: Arc<Mutex<OpenQuestions>>,
}

impl Checks {
    /// Asks whether the token was issued, or joins those that ask already; once more, if no answer comes within
    /// `patience`. If it was issued, hold the question until the mark is raised: then no request asks again.
    pub(super) async fn was_issued(
        &self,
        resource: &Resource,
        token: Token,
        patience: Duration,
    ) -> Result<Option<Arc<Question>>, Cause> {
        let sequencer = Sequencer::new(resource.clone(), token);
        let came = self.open.lock().begun;
        let first = self.ask(&sequencer, 0)?;
        match timeout_at(first.since + patience, first.answer.clone()).await {
            // It was asked before this request came: the token may have been issued since.
            Ok(Ok(false)) if first.number < came => {}
            Ok(answer) => return Ok(answer?.then_some(first)),
            Err(_) => {}
        }
        let second = self.ask(&sequencer, came.max(first.number + 1))?;
        let first_says_yes = async {
            if !matches!(first.answer.clone().await, Ok(true)) {
                pending().await
            }
        };
        tokio::select! {
            biased;
            () = first_says_yes => Ok(Some(first)),
            answer = second.answer.clone() => Ok(answer?.then_some(second)),
        }
    }

    /// Joins the newest question of this token, or begins one if that has a number below `least`.
    fn ask(&self, sequencer: &Sequencer, least: u64) -> Result<Arc<Question>, Cause> {
        let mut open = self.open.lock();
        match open.newest.get(sequencer) {
            // Only a question that is returned is upgraded: its last owner locks `open` to drop it.
            Some(newest) if newest.number >= least => {
                if let Some(question) = newest.question.upgrade() {
                    return Ok(question);
                }
            }
            Some(_) => {}
            None => open.find_room(sequencer)?,
        }
        let number = open.begun;
        open.begun += 1;
        let (check, shown) = (Arc::clone(&self.check), sequencer.clone());
        let (answer, abort) = abortable(async move { check(shown).await });
        let answer = answer.map(|answer| answer.unwrap_or_else(|_| Err(crowded())));
        let question = Arc::new(Question {
            sequencer: sequencer.clone(),
            number,
            since: Instant::now(),
            answer: answer.boxed().shared(),
            open: Arc::clone(&self.open),
        });
        let newest = NewestQuestion { number, question: Arc::downgrade(&question), abort };
        open.newest.insert(sequencer.clone(), newest);
        Ok(question)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if open.newest.get(&self.sequencer).is_some_and(|newest| newest.number == self.number) {
            open.newest.remove(&self.sequencer);
        }
    }
}
