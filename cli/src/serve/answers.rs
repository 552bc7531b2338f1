use fencing::http::{Problem, attach_sequencer};
use fencing::lock::{AcquireError, Loss};
use http::header::{CONTENT_LENGTH, LOCATION};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::JSON;
use super::table::Shown;
use crate::duration::about;
use crate::listen::{HttpAnswer, answer, problem};
use crate::signing::{SIGNATURE, SigningKeys};

/// Another client holds the lock.
const HELD: (&str, &str) = ("urn:fencing:held", "Held by another client");
/// The service, or its client, has too much to do.
const OVERLOADED: (&str, &str) = ("urn:fencing:overloaded", "Too many requests");
/// The lease is over.
const NO_LEASE: (&str, &str) = ("urn:fencing:no-lease", "No such lease");
const UNAVAILABLE: (&str, &str) = (Problem::UNAVAILABLE, "Locks unavailable");
const MALFORMED: (&str, &str) = (Problem::MALFORMED, "Malformed request");
const IN_DOUBT: (&str, &str) = (Problem::IN_DOUBT, "Release in doubt");

/// Shows a lease, with its signature if there are keys.
pub(super) fn lease(status: StatusCode, lease: &Shown, keys: Option<&SigningKeys>) -> HttpAnswer {
    let Shown { id, sequencer, ttl, valid_for } = lease;
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let signature = keys.map(|keys| keys.sign(sequencer));
    let mut text = json!({
        "resource": sequencer.resource,
        "token": sequencer.token,
        "sequencer": sequencer,
        "lease_id": id,
        "ttl_ms": millis(*ttl),
        "valid_for_ms": millis(*valid_for),
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

pub(super) fn malformed(why: &str) -> HttpAnswer {
    problem(StatusCode::BAD_REQUEST, MALFORMED, why, None)
}

pub(super) fn too_long(why: &str) -> HttpAnswer {
    problem(StatusCode::PAYLOAD_TOO_LARGE, MALFORMED, why, None)
}

pub(super) fn not_json() -> HttpAnswer {
    let why = "the body is JSON: send it as Content-Type: application/json";
    problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, MALFORMED, why, None)
}

pub(super) fn from_a_page() -> HttpAnswer {
    let why = "web pages get no leases: a request with Origin or Sec-Fetch-Site is refused";
    problem(StatusCode::FORBIDDEN, ("about:blank", "Forbidden"), why, None)
}

pub(super) fn unavailable(why: &str) -> HttpAnswer {
    problem(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, why, Some(1))
}

pub(super) fn overloaded(why: &str) -> HttpAnswer {
    problem(StatusCode::TOO_MANY_REQUESTS, OVERLOADED, why, Some(1))
}

pub(super) fn no_lease() -> HttpAnswer {
    let why = "there is no such lease, or it is over: stop the work, or acquire again";
    problem(StatusCode::NOT_FOUND, NO_LEASE, why, None)
}

pub(super) fn lost(loss: Loss) -> HttpAnswer {
    let why = format!("{loss}: stop the work, or acquire again");
    problem(StatusCode::NOT_FOUND, NO_LEASE, &why, None)
}

pub(super) fn release_in_doubt() -> HttpAnswer {
    let why = "too few servers answered; the lock is free by the end of its TTL";
    problem(StatusCode::SERVICE_UNAVAILABLE, IN_DOUBT, why, None)
}

pub(super) fn not_found() -> HttpAnswer {
    problem(StatusCode::NOT_FOUND, ("about:blank", "Not Found"), "see /openapi.yaml", None)
}

/// The router adds which methods are allowed.
pub(super) fn wrong_method() -> HttpAnswer {
    let kind = ("about:blank", "Method Not Allowed");
    problem(StatusCode::METHOD_NOT_ALLOWED, kind, "see /openapi.yaml", None)
}

/// Says why there is no lease. The names of the servers go to the log only.
pub(super) fn not_acquired(error: &AcquireError) -> HttpAnswer {
    match error {
        AcquireError::Held { resource, retry_after, .. } => {
            // Who holds it is for the log of a client that may ask the nodes.
            let left = about(*retry_after);
            let text = format!("{resource} is held by another client; try again in {left}");
            let seconds = u64::try_from(retry_after.as_millis().div_ceil(1000).max(1));
            problem(StatusCode::CONFLICT, HELD, &text, seconds.ok())
        }
        AcquireError::Overloaded { .. } => overloaded(&error.to_string()),
        AcquireError::NoQuorum { nodes, needed, .. } => {
            tracing::warn!(%error, "lease not acquired");
            unavailable(&format!("too few lock nodes granted: {needed} of {nodes} are needed"))
        }
        error => {
            tracing::warn!(%error, "lease not acquired");
            unavailable("the lock service does not answer")
        }
    }
}
