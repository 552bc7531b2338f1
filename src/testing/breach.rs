use std::fmt::Debug;

/// A rule that an implementation must keep, and that its suite checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// All suites: requests are answered.
    #[error("every request is answered")]
    Answers,
    /// All suites: names are compared by their bytes.
    #[error("resources whose names differ in any byte are apart")]
    NamesApart,

    /// Node: only an admitted node votes.
    #[error("a node that is not admitted gives no vote")]
    AdmittedVotes,
    /// Node: the first nonce of a stretch of memory stays.
    #[error("prepares that race share the first nonce")]
    FirstNonce,
    /// Node: nonce and incarnation of `Activate` are those of `Prepare`.
    #[error("only the memory that was prepared is activated")]
    PreparedMemory,
    /// Node: a node that was re-admitted does not grant at once.
    #[error("a quarantined node neither grants nor renews, and answers the rest")]
    Quarantine,
    /// Node: only clients of its fleet get a vote.
    #[error("a node gives no vote to clients of another fleet, and names its own")]
    OneFleet,
    /// Node: what a seal does.
    #[error(
        "a node that has left its fleet gives no vote there, keeps its promises, and can join the new one"
    )]
    Sealed,
    /// Node: how long locks may be held. For short ones, up to a minute, it may report a little
    /// more, even after a release.
    #[error("a node reports how long a lock that it granted or renewed may be out")]
    Outlasts,
    /// Node: a promise is kept.
    #[error("a promised era is never lowered")]
    Reserved,
    /// Node: eras.
    #[error("an era only grows: on an admitted node to collect counts, where there are too many")]
    Era,
    /// Node: each grant counts one more, a repeated request does not.
    #[error("each grant counts one more, and a repeated request does not")]
    Counts,
    /// Node: the end of an era.
    #[error("a count that has run out is not granted")]
    Exhausted,
    /// Node and lock: one holder.
    #[error("a lock that is held is not granted to another owner")]
    OneHolder,
    /// Node: time to live.
    #[error("a lock lasts for its TTL and is gone after it")]
    Expiry,
    /// Node: requests of one session run in the order of their first polls.
    #[error("requests of one session run in order")]
    InOrder,
    /// Node: publish needs the owner.
    #[error("a count is published only for the owner of the lock")]
    PublishOwner,
    /// Node: publish needs the nonce.
    #[error("a count is published only in the memory of the grant")]
    PublishNonce,
    /// Node: publish never answers yes below the count.
    #[error("a count is published only where no other owner has counted further")]
    PublishCount,
    /// Node: what publish does.
    #[error("publishing raises the count and never lowers it")]
    PublishRaises,
    /// Node: renewal by the owner.
    #[error("a lock is renewed for its owner, and set again where no other owner has come since")]
    RenewOutcome,
    /// Node: a lock that several owners share.
    #[error("owners that share a lock share its count, and nobody holds it alone beside them")]
    Shared,
    /// Node: who waits for those that share a lock.
    #[error("a lock that drains takes no new owners")]
    Drains,
    /// Node: release by the owner.
    #[error("a lock is released by its owner only, once")]
    OwnerReleases,
    /// Node and lock: what is released early.
    #[error("a lock that is released early stays closed for the rest of its time, and no longer")]
    AtLeast,
    /// Node and lock: several locks in one request.
    #[error("of several locks that are asked for together, all are granted or none")]
    AllOrNone,
    /// Lock: several resources in one call.
    #[error("one call acquires the first of 1 to 128 resources that is free, or all of them")]
    Several,

    /// Marks: equal.
    #[error("an equal token passes")]
    EqualPasses,
    /// Marks: lower.
    #[error("a lower token is refused")]
    LowerRefused,
    /// Marks: higher, whatever the distance.
    #[error("a higher token passes")]
    HigherPasses,
    /// Marks: what a refusal says, and that it changes nothing.
    #[error("a refusal reports the highest token and leaves it as it is")]
    RefusalReports,
    /// Marks: what is read of a mark. Marks that cannot be read know of none.
    #[error("a mark is read as no higher than it is")]
    MarkRead,
    /// Marks: concurrent raises.
    #[error("once a token has passed, no raise that begins later passes with a lower one")]
    Linear,

    /// Lock: order of the tokens.
    #[error("a later lease has a larger token")]
    TokensGrow,
    /// Lock: release.
    #[error("a released or dropped lease frees the lock")]
    Frees,
    /// Lock: cancellation.
    #[error("a dropped acquisition leaves nothing behind")]
    CancelSafe,
    /// Lock: waiting.
    #[error("acquire waits for the holder")]
    Waits,
    /// Lock: loss.
    #[error("every task that awaits the loss of a lease learns of it")]
    LossReported,
    /// Lock: the shared mode.
    #[error("those who share a lock hold it at one time")]
    Together,
    /// Lock: who waits for those that share a lock.
    #[error("who waits to hold a lock alone gets it, although others share it in turns")]
    NotStarved,
    /// Lock: work under a lease.
    #[error("work runs while the lease lasts, and not after")]
    Work,
}

/// A rule that an implementation breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("broken: {rule}; {case}: found {found}")]
pub struct Breach {
    rule: Rule,
    case: String,
    found: String,
}

impl Breach {
    /// Returns the rule that is broken.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns what the suite did, and what it wanted.
    #[must_use]
    pub fn case(&self) -> &str {
        &self.case
    }

    /// Returns what it found instead.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.found
    }
}

impl Rule {
    pub(super) fn breach(self, case: impl Into<String>, found: &impl Debug) -> Breach {
        Breach { rule: self, case: case.into(), found: format!("{found:?}") }
    }

    pub(super) fn holds(
        self,
        holds: bool,
        case: impl Into<String>,
        found: &impl Debug,
    ) -> Result<(), Breach> {
        if holds { Ok(()) } else { Err(self.breach(case, found)) }
    }

    pub(super) fn same<T: Debug + PartialEq>(
        self,
        case: impl Into<String>,
        found: &T,
        wanted: &T,
    ) -> Result<(), Breach> {
        let case = format!("{}, to give {wanted:?}", case.into());
        self.holds(found == wanted, case, found)
    }
}
