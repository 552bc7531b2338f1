use fencing_protocol::Resource;

use crate::fence::{FenceError, Stale};
use crate::server_info::Unfit;

/// Why a fenced write, or the raise of a mark, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FencedError {
    /// The mark is higher. Nothing was written. Do not try again: acquire a new lease.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The server may have lost marks. Nothing is written until an operator [opens](super::RedisMarks::open) the marks.
    #[error(
        "the marks are closed: {0}; read their state, and open them (RedisMarks::open, or `fencing db marks open`)"
    )]
    Closed(Closed),
    /// The key holds something of another type. Nothing was written, and the mark was not raised: an older token may
    /// still write. If the key may have another type, raise the mark first.
    #[error("the key holds a {found}: nothing was written")]
    WrongType {
        /// The type of what is there, as `TYPE` names it.
        found: String,
    },
    /// The mark is not a token, perhaps changed by hand. Its resource admits no request until it is corrected.
    #[error("the mark of {resource} is not a valid token: {found:?}; correct it by hand")]
    Corrupt {
        /// Whose mark it is.
        resource: Resource,
        /// The value that was found.
        found: String,
    },
    /// The floor is not a valid token, such as a value changed by hand. No request is admitted until it is corrected.
    #[error("the floor of the marks is not a valid token: {found:?}; correct it by hand")]
    CorruptFloor {
        /// The value that was found.
        found: String,
    },
    /// The server cannot keep marks. Nothing was written.
    #[error("the server cannot keep marks: {0}")]
    Unfit(Unfit),
    /// In a Redis Cluster, the key and the marks are not both on this server. Nothing was written. Give the key the
    /// hash tag of the namespace, as in `{files}:a`, and connect to the master that has this slot.
    #[error(
        "the key and the marks are not in one slot of this server: give the key the namespace as \
         its hash tag, and connect to the master of that slot: {0}"
    )]
    OtherSlot(String),
    /// The key is that of marks, or of the memory of a lock node: it ends in `}:marks` or `}:memory`. Nothing was sent.
    #[error("the key ends in }}:marks or }}:memory, which this crate reserves: choose another key")]
    OwnKey,
    /// Too many fields, or none. Nothing was sent.
    #[error("{count} fields were given; 1 to {most} can be written at once")]
    WrongCount {
        /// Number of given fields.
        count: usize,
        /// The limit of one call.
        most: usize,
    },
    /// The server refused: no memory left, or a right is missing. Nothing was written; the mark may have been raised.
    #[error("the server refused: {0}")]
    Refused(String),
    /// There is no connection, or a script keeps the server busy. Nothing was done.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent and not answered. It may have run, or may run later. Send only the same write
    /// again: another one could be overwritten. For another write take a new lease, seal, then read.
    #[error("in doubt: {0}; the write may have been applied, or may be applied later")]
    InDoubt(String),
}

impl FencedError {
    pub(super) fn label(&self) -> &'static str {
        match self {
            FencedError::Stale(_) => "stale",
            FencedError::Closed(_) => "closed",
            FencedError::WrongType { .. } => "wrong_type",
            FencedError::Corrupt { .. } | FencedError::CorruptFloor { .. } => "corrupt",
            FencedError::Unfit(_) => "unfit",
            FencedError::OtherSlot(_) => "other_slot",
            FencedError::OwnKey | FencedError::WrongCount { .. } => "misused",
            FencedError::Refused(_) => "refused",
            FencedError::Unreachable(_) => "unreachable",
            FencedError::InDoubt(_) => "in_doubt",
        }
    }
}

impl From<FencedError> for FenceError {
    fn from(error: FencedError) -> FenceError {
        match error {
            FencedError::Stale(stale) => FenceError::Stale(stale),
            error @ FencedError::Closed(_) => FenceError::Closed(Box::new(error)),
            error @ (FencedError::Corrupt { .. } | FencedError::CorruptFloor { .. } | FencedError::OtherSlot(_)) => {
                FenceError::Refused(Box::new(error))
            }
            FencedError::Refused(text) if DENIALS.iter().any(|code| text.contains(code)) => {
                FenceError::Refused(Box::new(FencedError::Refused(text)))
            }
            error => FenceError::Unreachable(Box::new(error)),
        }
    }
}

/// The codes of errors that a missing right or a wrong password causes.
const DENIALS: [&str; 3] = ["NOPERM", "NOAUTH", "WRONGPASS"];

/// Why the marks are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// The server knows of no opening.
    #[error("they were never opened here, or have been flushed, evicted or deleted")]
    NeverOpened,
    /// They were opened under another `run_id` of the server.
    #[error("the server was restarted or replaced since they were opened")]
    OtherLife,
    /// Their state has changed since the operator read it.
    #[error("they have changed since they were read")]
    Moved,
}

/// Why [`RedisMarks::new`](super::RedisMarks::new) refused its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It is not a URL of a Redis. The error does not repeat it: it may hold a password.
    #[error("not a valid redis://, rediss:// or unix:// URL")]
    Url,
    /// The namespace cannot be part of a key.
    #[error("a namespace must have 1 to 64 bytes, no control characters, no braces")]
    Namespace,
}
