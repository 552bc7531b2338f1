use std::error::Error;

use fencing_protocol::Fault;
use tonic::{Code, Status};

/// Why a request has no answer that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EtcdFailure {
    pub(super) fault: Fault,
    /// Whether the request may still take effect.
    pub(super) in_doubt: bool,
    /// Whether another member may do better.
    pub(super) elsewhere: bool,
}

impl EtcdFailure {
    /// The request has no effect, and never will have one.
    pub(super) fn refused(fault: Fault) -> EtcdFailure {
        EtcdFailure { fault, in_doubt: false, elsewhere: false }
    }

    /// The member could not be asked.
    pub(super) fn unsent(fault: Fault) -> EtcdFailure {
        EtcdFailure { elsewhere: true, ..EtcdFailure::refused(fault) }
    }

    pub(super) fn lost(fault: Fault) -> EtcdFailure {
        EtcdFailure { fault, in_doubt: true, elsewhere: true }
    }

    pub(super) fn of(status: &Status) -> EtcdFailure {
        let text = status.message();
        let hint = |hint: &str| format!("{text}: {hint}");
        match status.code() {
            Code::InvalidArgument if text.contains("user name is empty") => {
                EtcdFailure::refused(Fault::Denied(hint("put the user and its password before the host in the URL")))
            }
            Code::InvalidArgument if text.contains("authentication failed") => {
                EtcdFailure::refused(Fault::Denied(hint("check the user and the password in the URL")))
            }
            Code::Unauthenticated | Code::PermissionDenied => EtcdFailure::refused(Fault::Denied(text.to_owned())),
            Code::ResourceExhausted if text.contains("space exceeded") => EtcdFailure::refused(Fault::NotNow(hint(
                "compact and defragment the members, then `etcdctl alarm disarm`",
            ))),
            Code::ResourceExhausted if text.contains("too many requests") => {
                EtcdFailure::refused(Fault::NotNow(text.to_owned()))
            }
            Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound => {
                EtcdFailure::refused(Fault::Refused(text.to_owned()))
            }
            Code::Unavailable if text.contains("no leader") => EtcdFailure::unsent(Fault::Unreachable(text.to_owned())),
            // This client says so as well, of an answer that it can't read: OutOfRange, Unimplemented.
            _ => EtcdFailure::lost(Fault::Disconnected(causes(status))),
        }
    }
}

impl From<EtcdFailure> for Fault {
    fn from(failure: EtcdFailure) -> Fault {
        failure.fault
    }
}

pub(super) fn unconnected(member: &str, text: &str) -> EtcdFailure {
    let denied = |hint: &str| EtcdFailure::unsent(Fault::Denied(format!("{member}: {text}: {hint}")));
    if text.contains("CertificateRequired") {
        return denied("give a certificate as cert= and key= in the URL");
    }
    if text.contains("certificate") {
        return denied("give the certificate of its authority as ca= in the URL, and its name as host");
    }
    EtcdFailure::unsent(Fault::Unreachable(format!("{member}: {text}")))
}

/// Returns whether the token of the user has lapsed: another one is needed.
pub(super) fn needs_login(status: &Status) -> bool {
    status.code() == Code::Unauthenticated
        || status.message().contains("revision in header is old")
        || status.message().contains("revision of auth store is old")
        || status.message().contains("invalid auth token")
}

/// Returns an error and what it says of its causes, each once.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut next) = (String::new(), Some(error));
    while let Some(error) = next {
        let part = match error.downcast_ref::<Status>() {
            Some(status) => status.message().to_owned(),
            None => error.to_string(),
        };
        if !text.contains(&part) {
            text = if text.is_empty() { part } else { format!("{text}: {part}") };
        }
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_whose_answer_can_not_be_read_is_in_doubt() {
        for status in [Status::out_of_range("too large"), Status::unimplemented("compressed"), Status::unknown("?")] {
            assert!(EtcdFailure::of(&status).in_doubt, "{status}");
        }
        for status in [Status::invalid_argument("too many operations"), Status::not_found("lease not found")] {
            assert!(!EtcdFailure::of(&status).in_doubt, "{status}");
        }
    }
}
