use std::time::Duration;

/// Why a node gave no vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No connection could be made.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// No answer within the node budget. The request may still have run.
    #[error("timed out")]
    TimedOut,
    /// The connection broke. The request may still have run.
    #[error("connection lost: {0}")]
    Disconnected(String),
    /// User or password refused, or a command not permitted.
    #[error("not permitted: {0}")]
    Denied(String),
    /// It answered with an error of its own.
    #[error("refused: {0}")]
    Refused(String),
    /// It forgot its state and waits to be re-admitted.
    #[error("not admitted")]
    NotAdmitted,
    /// It was re-admitted and does not grant yet.
    #[error("quarantined for {} ms", .0.as_millis())]
    Quarantined(Duration),
    /// Its count in this era has run out and a new era is being taken.
    #[error("count exhausted")]
    Exhausted,
    /// Its `maxmemory-policy` may evict locks.
    #[error("maxmemory-policy is {0}; it must be noeviction")]
    MaxmemoryPolicy(String),
    /// It has no memory left for writes.
    #[error("out of memory")]
    OutOfMemory,
    /// It is a replica.
    #[error("not a master")]
    NotMaster,
    /// It is the server that this other name stands for: one server has one vote.
    #[error("the same server as {0}")]
    SameServer(String),
    /// It is loading its data set.
    #[error("loading")]
    Loading,
    /// It granted, but too late, or the grant was gone before its count was published.
    #[error("granted, but not in time")]
    TooLate,
    /// It answered what no node answers.
    #[error("answered nonsense: {0}")]
    Nonsense(String),
}
