use fencing::http::Problem;
use fencing::lock::{AcquireError, LeaseLost, Loss, RenewError};
use http::StatusCode;

use crate::duration::{about, millis};
use crate::listen::{ProblemKind, Refused};

pub(super) const TOO_LONG: ProblemKind = ProblemKind::new(StatusCode::PAYLOAD_TOO_LARGE, Problem::MALFORMED);
pub(super) const NOT_JSON: ProblemKind = ProblemKind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Problem::MALFORMED);
pub(super) const NOT_FOUND: ProblemKind = ProblemKind::new(StatusCode::NOT_FOUND, "about:blank");
/// The router adds which methods are allowed.
pub(super) const WRONG_METHOD: ProblemKind = ProblemKind::new(StatusCode::METHOD_NOT_ALLOWED, "about:blank");
pub(super) const UNAUTHORIZED: ProblemKind = ProblemKind::new(StatusCode::UNAUTHORIZED, "about:blank");
pub(super) const FORBIDDEN: ProblemKind = ProblemKind::new(StatusCode::FORBIDDEN, "about:blank");
/// A client, or all clients together, have reached a bound.
pub(super) const OVERLOADED: ProblemKind =
    ProblemKind::new(StatusCode::TOO_MANY_REQUESTS, Problem::OVERLOADED).retry_after(1);
pub(super) const UNAVAILABLE: ProblemKind =
    ProblemKind::new(StatusCode::SERVICE_UNAVAILABLE, Problem::UNAVAILABLE).retry_after(1);
pub(super) const IN_DOUBT: ProblemKind = ProblemKind::new(StatusCode::SERVICE_UNAVAILABLE, Problem::IN_DOUBT);
const HELD: ProblemKind = ProblemKind::new(StatusCode::CONFLICT, Problem::HELD);
pub(super) const SUPERSEDED: ProblemKind = ProblemKind::new(StatusCode::CONFLICT, Problem::SUPERSEDED);
pub(super) const NO_LEASE: ProblemKind = ProblemKind::new(StatusCode::NOT_FOUND, Problem::NO_LEASE);

pub(super) fn no_lease() -> Refused {
    NO_LEASE.because("there is no such lease, or it has ended: stop the work, or acquire again")
}

/// Says why a lease was not renewed, and how long it lasts.
pub(super) fn not_renewed(error: &RenewError, lasts: &str) -> Refused {
    match error {
        RenewError::Lost(LeaseLost { loss, .. }) => {
            let kind = if *loss == Loss::Superseded { SUPERSEDED } else { NO_LEASE };
            kind.because(format_args!("{loss}: stop the work, or acquire again"))
        }
        error => {
            tracing::warn!(%error, "lease not renewed");
            UNAVAILABLE.because(format_args!("not renewed: too few servers answered; the lease lasts {lasts}"))
        }
    }
}

/// Says why there is no lease. The names of the servers, and who holds it, go to the log only.
pub(super) fn not_acquired(error: &AcquireError) -> Refused {
    let why = match error {
        AcquireError::Held { resource, retry_after, .. } => {
            let seconds = millis(*retry_after).div_ceil(1000).max(1);
            let why = format!("{resource} is held by another client; try again in {}", about(*retry_after));
            return HELD.retry_after(seconds).because(why);
        }
        AcquireError::Overloaded { .. } => return OVERLOADED.because(error),
        AcquireError::NoQuorum { nodes, needed, .. } => {
            let why = "the log of the service says why; new nodes grant nothing at first";
            format!("too few lock nodes granted, {needed} of {nodes} are needed: {why}")
        }
        _ => "the lock service granted nothing; the log of the service says why".to_owned(),
    };
    tracing::warn!(%error, "lease not acquired");
    UNAVAILABLE.because(why)
}
