use fencing_protocol::Fault;
use zookeeper_client::{Error, MultiWriteError};

/// Reports whether the request may have run although there is no answer.
pub(super) fn is_in_doubt(error: &Error) -> bool {
    // A connection that breaks has an error of its own kind.
    matches!(
        error,
        Error::ConnectionLoss
            | Error::Timeout
            | Error::Custom(_)
            | Error::UnexpectedError(_)
            | Error::UnexpectedErrorCode(_)
            | Error::UnmarshalError { .. }
    )
}

/// Reports whether the session has ended. Its nodes are gone, or will be.
pub(super) fn is_over(error: &Error) -> bool {
    matches!(error, Error::SessionExpired | Error::SessionMoved | Error::ClientClosed | Error::AuthFailed)
}

/// Returns nothing where the node is missing.
pub(super) fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::NoNode) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Returns the error of a write of several, and which of them it was about.
pub(super) fn of_write(error: MultiWriteError) -> (Option<usize>, Error) {
    match error {
        MultiWriteError::RequestFailed { source } => (None, source),
        MultiWriteError::OperationFailed { index, source } => (Some(index), source),
    }
}

pub(super) fn of(error: Error) -> Fault {
    match error {
        Error::NoHosts => Fault::Unreachable("no server accepts a session".into()),
        Error::Timeout => Fault::TimedOut,
        Error::ConnectionLoss | Error::Custom(_) => Fault::Disconnected(error.to_string()),
        Error::SessionExpired | Error::SessionMoved | Error::ClientClosed => {
            Fault::Disconnected("the session has ended".into())
        }
        Error::NoAuth | Error::AuthFailed | Error::InvalidAcl => {
            Fault::Denied(format!("{error}: the nodes belong to another user, or the password is wrong"))
        }
        Error::UnexpectedError(_) | Error::UnmarshalError { .. } => Fault::InvalidReply(error.to_string()),
        Error::NotReadOnly | Error::Throttled | Error::RuntimeInconsistent => Fault::NotNow(error.to_string()),
        error => Fault::Refused(error.to_string()),
    }
}

/// Returns the fault, which names the node.
pub(super) fn at(path: &str, error: Error) -> Fault {
    match of(error) {
        Fault::Refused(text) => Fault::Refused(format!("{path}: {text}")),
        fault => fault,
    }
}
