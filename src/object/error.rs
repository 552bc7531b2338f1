use fencing_protocol::ResourceError;
use object_store::Error;
use object_store::path::Path;

use crate::fence::Stale;

/// Why a call on an [`ObjectFence`](super::ObjectFence) failed.
///
/// If an earlier answer of the store was lost, a write that ends as [`Stale`](ObjectError::Stale), `NotFenced` or
/// `Contended` may have been applied before the other one came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The object has a newer token. Do not try again: acquire a new lease.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// There is no such object, or it is deleted.
    #[error("there is no object {path}")]
    NotFound {
        /// The path of the object.
        path: Path,
    },
    /// The path cannot be the name of a resource, or is one of those where the fence keeps objects of its own.
    #[error("{path} cannot be the path of a fenced object: {cause}")]
    Path {
        /// The path.
        path: Path,
        /// What is wrong with it.
        cause: PathCause,
    },
    /// The object was written without the fence. Nothing was written over it.
    #[error(
        "the object {path} was written without the fence: stop its writers, delete it, and put its contents with a token \
         above all that were granted"
    )]
    NotFenced {
        /// The path of the object.
        path: Path,
    },
    /// Others under the same token or an older one wrote before each of a hundred tries, or the store refused each for
    /// another reason, such as a lease of the blob. Try again.
    #[error("other writers of {path} came first a hundred times; try again")]
    Contended {
        /// The path of the object.
        path: Path,
    },
    /// The store does not keep to conditions, so no fence can stand on it.
    #[error("{store} cannot be fenced: {defect}")]
    Unconditional {
        /// The store, as it names itself.
        store: String,
        /// What it did.
        defect: &'static str,
    },
    /// The store gave no answer, or one that says nothing about the write: it may have been applied, and may still be.
    /// Repeat it under the same token, or read the object.
    #[error("the write of {path} may have been applied: {source}; repeat it under the same token")]
    InDoubt {
        /// The path of the object.
        path: Path,
        /// The cause.
        source: Error,
    },
    /// The store could not be read, or refused the write: for want of rights, or of a bucket. Nothing was written.
    #[error(transparent)]
    Store(#[from] Error),
    /// The stream of the caller failed. The object is as it was.
    #[error("the contents of {path} could not be read: {source}")]
    Contents {
        /// The path of the object.
        path: Path,
        /// The error of the stream.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why a path cannot be the path of a fenced object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathCause {
    /// It cannot be the name of a [`Resource`](crate::Resource).
    #[error(transparent)]
    Name(#[from] ResourceError),
    /// It is below the folder in which the fence keeps contents of streams.
    #[error("the folder .fencing belongs to the fence")]
    Reserved,
}

impl ObjectError {
    /// The label of this outcome in metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            ObjectError::Stale(_) => "stale",
            ObjectError::InDoubt { .. } => "in_doubt",
            ObjectError::Store(_) => "unreachable",
            ObjectError::Contended { .. } => "busy",
            ObjectError::Path { .. } => "malformed",
            _ => "refused",
        }
    }

    /// Says what an error of the store means for the write that it answers, or for a write that was sent before.
    pub(super) fn sent(path: &Path, source: Error, before: bool) -> ObjectError {
        let refused = matches!(
            source,
            // The bucket is missing: a missing object counts as a condition that was not met.
            Error::NotFound { .. }
                | Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
                | Error::InvalidPath { .. }
                | Error::NotSupported { .. }
                | Error::NotImplemented { .. }
                | Error::UnknownConfigurationKey { .. }
        );
        match refused && !before && !repeated(&source) {
            true => source.into(),
            false => ObjectError::InDoubt { path: path.clone(), source },
        }
    }
}

/// Whether the client of the store has sent the request more than once: this error answers the last one only, and one
/// before it may have been applied. Nothing but the text says so.
fn repeated(error: &Error) -> bool {
    error.to_string().contains(" retries, max_retries: ")
}
