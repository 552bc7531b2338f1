use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use fencing::Lease;
use fencing::http::segments;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::error::ApiError;

/// How many leases may be out at once.
const MOST: usize = 10_000;
/// The longest TTL, in milliseconds: nodes that forget stay closed for as long.
const LONGEST_TTL: u64 = 600_000;
/// How long a request may wait for a lease, in milliseconds.
const LONGEST_WAIT: u64 = 60_000;

/// Leases that clients hold through this service. They are not renewed: a client that
/// sleeps past the TTL has lost its lease.
#[derive(Default)]
pub struct Leases(Mutex<HashMap<String, Lease>>);

impl Leases {
    pub async fn release_all(&self) {
        let leases = std::mem::take(&mut *self.0.lock());
        for lease in leases.into_values() {
            let _ = lease.release().await;
        }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    ttl_ms: u64,
    wait_ms: u64,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish { ttl_ms: 5000, wait_ms: 0 }
    }
}

/// `POST /leases/{resource...}`: acquires.
pub async fn acquire(
    State(app): State<Arc<App>>,
    Path(resource): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    // A page that is open in a browser on this machine reaches the service too, and needs no consent for a form.
    let site = headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    if site || headers.contains_key(ORIGIN) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "web pages get no leases"));
    }
    // As the fence of the files, it refuses names such as `files//report`: a file has one name, and one lock.
    let resource = segments(resource.split('/')).map_err(ApiError::bad)?;
    let wish: Wish = match body.as_ref() {
        [] => Wish::default(),
        _ if headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json") => {
            let detail = "send the body as Content-Type: application/json";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        json => serde_json::from_slice(json).map_err(ApiError::bad)?,
    };
    if wish.wait_ms > LONGEST_WAIT {
        return Err(ApiError::bad(format!("wait_ms is at most {LONGEST_WAIT}")));
    }
    if wish.ttl_ms > LONGEST_TTL {
        return Err(ApiError::bad(format!("ttl_ms is at most {LONGEST_TTL}")));
    }
    if app.leases.0.lock().len() >= MOST {
        return Err(ApiError::unavailable(format!("{MOST} leases are out")));
    }
    let lock = app.lock.with_ttl(Duration::from_millis(wish.ttl_ms)).map_err(ApiError::bad)?;
    let lease = tokio::select! {
        lease = async {
            match wish.wait_ms {
                0 => lock.try_acquire(&resource).await.map_err(ApiError::from),
                wait => {
                    let lock = lock.with_wait(Duration::from_millis(wait)).map_err(ApiError::bad)?;
                    Ok(lock.acquire(&resource).await?)
                }
            }
        } => lease?,
        () = app.stop.cancelled() => return Err(ApiError::unavailable("the service stops")),
    };
    let lease_id = random_id()?;
    let answer = json!({
        "resource": lease.resource(),
        "token": lease.token(),
        "lease_id": lease_id,
        "valid_for_ms": lease.valid_for().as_millis() as u64,
    });
    let lost = lease.lost();
    app.leases.0.lock().insert(lease_id.clone(), lease);
    tokio::spawn(async move {
        lost.await;
        app.leases.0.lock().remove(&lease_id);
    });
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// `DELETE /leases/{lease_id}`: releases.
pub async fn release(State(app): State<Arc<App>>, Path(lease_id): Path<String>) -> Result<StatusCode, ApiError> {
    let lease = app.leases.0.lock().remove(&lease_id);
    let lease = lease.ok_or(ApiError::not_found("there is no such lease, or it has expired"))?;
    match lease.release().await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(in_doubt) => Err(ApiError::unavailable(in_doubt)),
    }
}

/// Nobody can guess another client's lease.
fn random_id() -> Result<String, ApiError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(ApiError::unavailable)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}
