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
    /// It is not admitted, and can't be: too few nodes remember, so that every node must
    /// answer for a new start, and these do not.
    #[error(
        "not admitted: too few nodes remember, and a new start needs every node; no answer from \
         {}; if one is gone for good, `fencing fleet move` replaces it",
        .missing.join(", ")
    )]
    NotStarted {
        /// The nodes that do not answer.
        missing: Vec<String>,
    },
    /// It is not admitted: too few nodes remember, and `strict` leaves that to an operator.
    #[error(
        "not admitted: too few nodes remember, and `strict` leaves a new start to an operator \
         (`fencing fleet init` for new nodes, `fencing fleet admit` for a fleet that was in use)"
    )]
    Strict,
    /// It is closed until the locks that it may have forgotten have expired.
    #[error("quarantined for {} ms", .0.as_millis())]
    Quarantined(Duration),
    /// It belongs to another fleet than the list of nodes of this client makes. It gives no
    /// vote: majorities of different lists need not meet.
    #[error("a node of another fleet: {}", .members.join(","))]
    OtherFleet {
        /// The names of the nodes of that fleet.
        members: Vec<String>,
    },
    /// The fleet of this client was moved: give the client the new list.
    #[error("the fleet has moved to: {}", .to.join(","))]
    Moved {
        /// The names of the nodes of the new fleet.
        to: Vec<String>,
    },
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
    /// It was not asked: the call came from outside of a tokio runtime.
    #[error("not asked: the call came from outside of a tokio runtime")]
    NoRuntime,
    /// It answered what no node answers.
    #[error("answered nonsense: {0}")]
    Nonsense(String),
}
