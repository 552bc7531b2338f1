use std::time::Duration;

use super::about;

/// The cause of a node's missing vote. Its text follows the node's name: `redis://a:6379: timed out`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The client could not connect to it.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// It did not answer within the node budget. The request may still have run.
    #[error("timed out")]
    TimedOut,
    /// It was not asked: more requests of this client wait for it than the client keeps.
    #[error("not asked: this client has too many requests in flight to it (try again)")]
    Overloaded,
    /// It was not asked: this client could not send the request within the node budget.
    #[error(
        "not asked: this client could not send the request in time (a busy machine or a slow connection; try again)"
    )]
    Unsent,
    /// It answered, and this client read the answer too late for it to count. The machine is busy, or was suspended.
    #[error("answered, but this client read the answer too late (a busy machine; try again)")]
    Unread,
    /// The connection broke. The request may still have run.
    #[error("connection lost: {0}")]
    Disconnected(String),
    /// It refused the user or the password, or a command is not permitted: check its ACL.
    #[error("not permitted: {0}")]
    Denied(String),
    /// It answered with an error of the server.
    #[error("refused: {0}")]
    Refused(String),
    /// It refused for now: the same request may succeed later.
    #[error("refused for now: {0}")]
    NotNow(String),
    /// It has forgotten its state. The next client brings it back.
    #[error("not admitted")]
    NotAdmitted,
    /// It is not admitted: too few nodes remember, and a new start needs those that don't answer.
    #[error(
        "not admitted: too few nodes remember, and a new start needs every node; no answer from \
         {}; if one is gone for good, start an empty server under its name",
        .missing.join(", ")
    )]
    NotStarted {
        /// The nodes that do not answer.
        missing: Vec<String>,
    },
    /// It is not admitted: too few nodes remember, and `strict` leaves that to an operator.
    #[error(
        "not admitted: too few nodes remember, and `strict` leaves a new start to an operator \
         (`fencing fleet recover`)"
    )]
    Strict,
    /// It is quarantined until the locks that it may have forgotten have expired.
    #[error("quarantined for {} (earlier locks may still be held until then)", about(*.0))]
    Quarantined(Duration),
    /// It belongs to another fleet: this client has another list of nodes. It gives no vote,
    /// because majorities of different lists need not meet.
    #[error(
        "a node of another fleet: {} (node names); give every client the same list, and the new list of a move only \
         when it is done",
        .members.join(",")
    )]
    OtherFleet {
        /// The names of the nodes of that fleet.
        members: Vec<String>,
    },
    /// The fleet of this client was moved: give the client the new list.
    #[error("the fleet has moved to: {}; use that list only if the move is done, otherwise run the move again", .to.join(","))]
    Moved {
        /// The names of the nodes of the new fleet.
        to: Vec<String>,
    },
    /// Its count in this era has run out. Clients begin a new era by themselves.
    #[error("count exhausted (clients begin a new era automatically: try again)")]
    Exhausted,
    /// Its count has run out, and no new era begins for this long: the present one is ahead of its clock.
    #[error(
        "count exhausted; the present era is ahead of this node's clock, so a new one begins only in {}. If that \
         is too long, restart the nodes without their data, one at a time: each when the previous one grants again",
        about(*.0)
    )]
    EraAhead(Duration),
    /// Its `maxmemory-policy` may evict locks. Set it to `noeviction`.
    #[error("maxmemory-policy is {0}; it must be noeviction")]
    MaxmemoryPolicy(String),
    /// It has no memory left for writes.
    #[error("out of memory (raise maxmemory, or free some)")]
    OutOfMemory,
    /// It is a replica. A node must be a master of its own, without failover.
    #[error("not a master")]
    NotMaster,
    /// It is the same server as the node of this name. One server has one vote.
    #[error("the same server as {0}")]
    SameServer(String),
    /// It is loading its data set.
    #[error("loading its data set (wait until it is done)")]
    Loading,
    /// It granted, but too late, or the grant was gone before its count was published.
    #[error("granted, but not in time (try again)")]
    GrantedTooLate,
    /// It was not asked: the call came from outside of a tokio runtime.
    #[error("not asked: the call came from outside of a tokio runtime")]
    NoRuntime,
    /// The reply is not one that a node sends.
    #[error("invalid reply: {0}")]
    InvalidReply(String),
}

impl Fault {
    /// Reports whether the client itself caused the fault, and not the node.
    pub fn is_own(&self) -> bool {
        matches!(self, Fault::Overloaded | Fault::Unsent | Fault::Unread)
    }

    /// Reports whether no answer came from the node.
    pub fn is_silent(&self) -> bool {
        matches!(self, Fault::Unreachable(_) | Fault::TimedOut | Fault::Disconnected(_))
    }

    /// Reports whether the node belongs to another list.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self, Fault::OtherFleet { .. } | Fault::Moved { .. })
    }
}
