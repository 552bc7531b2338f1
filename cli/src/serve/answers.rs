use std::time::Duration;

use fencing::http::{Problem, attach_sequencer};
use fencing::lock::{AcquireError, LeaseLost, Loss, RenewError};
use http::header::{CONTENT_LENGTH, LOCATION};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::JSON;
use super::clients::{OVERLOADED, UNAVAILABLE};
use super::table::KnownLease;
use crate::duration::{about, millis};
use crate::listen::{HttpAnswer, ProblemKind, Refused, answer};
use crate::signing::{SIGNATURE, SigningKeys};

const HELD: ProblemKind = ProblemKind::new(StatusCode::CONFLICT, Problem::HELD);
const SUPERSEDED: ProblemKind = ProblemKind::new(StatusCode::CONFLICT, Problem::SUPERSEDED);
const NO_LEASE: ProblemKind = ProblemKind::new(StatusCode::NOT_FOUND, Problem::NO_LEASE);
pub(super) const TOO_LONG: ProblemKind = ProblemKind::new(StatusCode::PAYLOAD_TOO_LARGE, Problem::MALFORMED);
pub(super) const NOT_JSON: ProblemKind = ProblemKind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Problem::MALFORMED);
pub(super) const IN_DOUBT: ProblemKind = ProblemKind::new(StatusCode::SERVICE_UNAVAILABLE, Problem::IN_DOUBT);
pub(super) const NOT_FOUND: ProblemKind = ProblemKind::new(StatusCode::NOT_FOUND, "about:blank");
/// The router adds which methods are allowed.
pub(super) const WRONG_METHOD: ProblemKind = ProblemKind::new(StatusCode::METHOD_NOT_ALLOWED, "about:blank");

pub(super) fn no_lease() -> Refused {
    Refused(NO_LEASE, "there is no such lease, or it has ended: stop the work, or acquire again".to_owned())
}

pub(super) fn lease(status: StatusCode, known: &KnownLease, left: Duration, keys: Option<&SigningKeys>) -> HttpAnswer {
    let KnownLease { id, sequencer, ttl, .. } = known;
    let signature = keys.map(|keys| keys.sign(sequencer));
    let mut text = json!({
        "resource": sequencer.resource,
        "token": sequencer.token,
        "sequencer": sequencer,
        "lease_id": id,
        "ttl_ms": millis(*ttl),
        "valid_for_ms": millis(left),
    });
    if let (Some(signature), Some(fields)) = (&signature, text.as_object_mut()) {
        fields.insert("signature".into(), signature.as_str().into());
    }
    let text = text.to_string();
    let length = HeaderValue::from(text.len());
    let mut answer = answer(status, JSON, text);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_LENGTH, length);
    if let Some(Ok(signature)) = signature.map(HeaderValue::try_from) {
        headers.insert(SIGNATURE, signature);
    }
    // In the form in which a client sends it on.
    attach_sequencer(headers, sequencer);
    if let Ok(location) = HeaderValue::try_from(format!("/leases/{id}"))
        && status == StatusCode::CREATED
    {
        headers.insert(LOCATION, location);
    }
    answer
}

/// Says why a lease was not renewed, and how long it lasts.
pub(super) fn not_renewed(error: &RenewError, lasts: &str) -> HttpAnswer {
    match error {
        RenewError::Lost(LeaseLost { loss, .. }) => {
            let kind = if *loss == Loss::Superseded { SUPERSEDED } else { NO_LEASE };
            kind.answer(format_args!("{loss}: stop the work, or acquire again"))
        }
        error => {
            tracing::warn!(%error, "lease not renewed");
            UNAVAILABLE.answer(format_args!("not renewed: too few servers answered; the lease lasts {lasts}"))
        }
    }
}

/// Says why there is no lease. The names of the servers, and who holds it, go to the log only.
pub(super) fn not_acquired(error: &AcquireError) -> HttpAnswer {
    let why = match error {
        AcquireError::Held { resource, retry_after, .. } => {
            let seconds = millis(*retry_after).div_ceil(1000).max(1);
            let left = about(*retry_after);
            let why = format!("{resource} is held by another client; try again in {left}");
            return HELD.retry_after(seconds).answer(why);
        }
        AcquireError::Overloaded { .. } => return OVERLOADED.answer(error),
        AcquireError::NoQuorum { nodes, needed, .. } => {
            let why = "the log of the service says why; new nodes grant nothing at first";
            format!("too few lock nodes granted, {needed} of {nodes} are needed: {why}")
        }
        _ => "the lock service does not answer".to_owned(),
    };
    tracing::warn!(%error, "lease not acquired");
    UNAVAILABLE.answer(why)
}
