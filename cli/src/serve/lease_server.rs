use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{self, IntoResponse};
use fencing::http::segments;
use fencing::lock::{LeaseLost, Lock, Loss, ReleaseError, Released, RenewError};
use fencing::{Lease, Sequencer};
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::answers::{FORBIDDEN, IN_DOUBT, NOT_JSON, TOO_LONG, UNAVAILABLE, no_lease, not_acquired, not_renewed};
use super::clients::{Caller, Clients, Right};
use super::table::{KnownLease, Table};
use super::{JSON, ServeArgs};
use crate::duration::{about, millis};
use crate::listen::{HttpAnswer, MALFORMED, Refused};
use crate::signing::SigningKeys;

/// The longest body, in bytes.
const MAX_BODY: usize = 4 << 10;

pub(super) struct LeaseServer {
    pub(super) args: ServeArgs,
    pub(super) lock: Arc<dyn Lock>,
    pub(super) clients: Clients,
    pub(super) table: Arc<Table>,
    /// The leases and the waiters that there may be.
    pub(super) lease_slots: Arc<Semaphore>,
    pub(super) waiter_slots: Arc<Semaphore>,
    pub(super) stop: CancellationToken,
    /// In etcd and in ZooKeeper each TTL has a session of its own.
    pub(super) has_sessions: bool,
    pub(super) keys: Option<SigningKeys>,
}

pub(super) type SharedServer = State<Arc<LeaseServer>>;
pub(super) type Answered = response::Result<HttpAnswer>;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct AcquireRequest {
    ttl_ms: Option<u64>,
    wait_ms: u64,
}

pub(super) async fn acquire(State(leases): SharedServer, caller: Extension<Caller>, request: Request) -> Answered {
    caller.require(Right::Acquire)?;
    // It is as strict as the fence: one resource has one name.
    let name = named(request.uri()).ok_or_else(|| MALFORMED.because("the name is not UTF-8"))?;
    let resource = segments(name.split('/')).map_err(|error| MALFORMED.because(error))?;
    caller.require_resource(&resource)?;
    caller.take_request()?;
    // Before the body: a slow one takes a connection as a waiter does.
    let _waiting = caller.take_waiter(&leases.waiter_slots)?;
    let stopping = || UNAVAILABLE.because("the service is stopping; nothing was acquired");
    let wanted = leases.stop.run_until_cancelled(acquire_request(request)).await.ok_or_else(stopping)??;
    let ttl = wanted.ttl_ms.map_or(leases.args.ttl, Duration::from_millis);
    let wait = Duration::from_millis(wanted.wait_ms);
    for (field, value, most) in [("ttl_ms", ttl, leases.args.longest_ttl), ("wait_ms", wait, leases.args.longest_wait)]
    {
        if value > most {
            return Err(MALFORMED.because(format_args!("{field} is at most {}", most.as_millis())).into());
        }
    }
    let is_other = leases.has_sessions && ttl != leases.args.ttl;
    let ttl = if is_other { rounded(ttl).min(leases.args.longest_ttl) } else { ttl };
    let lock = leases.lock.with_ttl(ttl).and_then(|lock| lock.with_wait(wait));
    let lock = lock.map_err(|error| MALFORMED.because(error))?;
    let slot = caller.take_lease(&leases.lease_slots)?;
    // If the client goes away, this is dropped, which releases.
    let acquired =
        async { if wait.is_zero() { lock.try_acquire(&resource).await } else { lock.acquire(&resource).await } };
    let lease = leases.stop.run_until_cancelled(acquired).await;
    let lease = lease.ok_or_else(stopping)?.map_err(|error| not_acquired(&error))?;
    let known = KnownLease::new(&lease, ttl, caller.name(), leases.keys.as_ref());
    let known = known.ok_or_else(|| UNAVAILABLE.because("no id could be made for the lease, so it was released"))?;
    let answer = known.answer(StatusCode::CREATED, lease.valid_for(), leases.keys.as_ref());
    leases.note(&known, "lease acquired");
    let table = Arc::clone(&leases.table);
    Ok(answer.map(|text| table.keep_once_read((known, lease, slot), text)))
}

pub(super) async fn show(leases: &LeaseServer, caller: &Caller, id: &str) -> Answered {
    let known = leases.find(caller, id, Some(Right::Read))?;
    caller.take_request()?;
    let left = leases.table.look(&known.id, Lease::valid_for).await.unwrap_or_default();
    // Another process may know more.
    if left.is_zero() && known.ticket.is_none() {
        return Err(no_lease().into());
    }
    Ok(known.answer(StatusCode::OK, left, leases.keys.as_ref()))
}

pub(super) async fn renew(State(leases): SharedServer, caller: Extension<Caller>, uri: Uri) -> Answered {
    let known = leases.find_own(&caller, &named(&uri).unwrap_or_default())?;
    let left = leases.renew(&caller, &known).await?;
    Ok(known.answer(StatusCode::OK, left, leases.keys.as_ref()))
}

pub(super) async fn release(State(leases): SharedServer, caller: Extension<Caller>, uri: Uri) -> Answered {
    let known = leases.find(&caller, &named(&uri).unwrap_or_default(), Some(Right::Release))?;
    if known.client != caller.name() {
        let Sequencer { resource, token } = &known.sequencer;
        tracing::warn!(client = known.client, by = caller.name(), %resource, %token, "lease released by another client");
    }
    let released = match leases.release_here(&known.id).await {
        Some(released) => released,
        None => leases.resume(&known).await?.release().await,
    };
    match released {
        Ok(Released::Released) => {
            leases.note(&known, "lease released");
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Ok(Released::Lapsed) => Err(no_lease().into()),
        Err(error) => {
            tracing::warn!(%error, "release in doubt");
            Err(IN_DOUBT.because("too few servers answered; the lock is free by the end of its TTL").into())
        }
    }
}

/// Returns what the path names: a resource, or a lease by its id. None has a name that is not UTF-8.
pub(super) fn named(uri: &Uri) -> Option<String> {
    let name = uri.path().strip_prefix("/leases/").unwrap_or_default();
    percent_decode_str(name).decode_utf8().ok().map(Cow::into_owned)
}

impl LeaseServer {
    /// Logs who has done what, where clients are told apart.
    fn note(&self, known: &KnownLease, what: &str) {
        if !self.clients.is_anybody() {
            let Sequencer { resource, token } = &known.sequencer;
            tracing::info!(target: "fencing_audit", client = known.client, %resource, %token, "{what}");
        }
    }

    /// Finds a lease of this client, or one of others to which it has the right.
    pub(super) fn find(&self, caller: &Caller, id: &str, of_others: Option<Right>) -> Result<KnownLease, Refused> {
        let right = of_others.filter(|right| caller.may(*right)).unwrap_or(Right::Acquire);
        caller.require(right)?;
        let sealed = || KnownLease::unseal(id, self.keys.as_ref()?);
        let known = self.table.find(id).map(|entry| entry.known.clone()).or_else(sealed).ok_or_else(no_lease)?;
        if known.client != caller.name() {
            let foreign = || FORBIDDEN.because("the lease belongs to another client");
            caller.require(of_others.ok_or_else(foreign)?)?;
            caller.require_resource(&known.sequencer.resource)?;
        }
        Ok(known)
    }

    /// Finds a lease of this client to renew it, unless the client has lost the right to its resource.
    pub(super) fn find_own(&self, caller: &Caller, id: &str) -> Result<KnownLease, Refused> {
        let known = self.find(caller, id, None)?;
        caller.require_resource(&known.sequencer.resource)?;
        Ok(known)
    }

    /// Renews a lease, and returns how long it lasts from now.
    pub(super) async fn renew(&self, caller: &Caller, known: &KnownLease) -> Result<Duration, Refused> {
        if let Some(entry) = self.table.find(&known.id)
            && let Some(lease) = entry.lease.lock().await.as_ref()
        {
            match lease.renew().await {
                Ok(left) => return Ok(left),
                // Another process may have renewed it.
                Err(RenewError::Lost(LeaseLost { loss: Loss::Expired, .. })) if known.ticket.is_some() => {}
                Err(error) => {
                    let lasts = format!("for another {}", about(lease.valid_for()));
                    return Err(not_renewed(&error, &lasts));
                }
            }
        }
        let lease = self.resume(known).await?;
        let left = lease.valid_for();
        match caller.take_lease(&self.lease_slots) {
            Ok(slot) => self.table.keep(known.clone(), lease, slot),
            // It is renewed all the same, each time anew.
            Err(_) => lease.leave(),
        }
        Ok(left)
    }

    /// Goes on with a lease that another process has granted or renewed.
    async fn resume(&self, known: &KnownLease) -> Result<Lease, Refused> {
        let ticket = known.ticket.as_ref().ok_or_else(no_lease)?;
        self.lock.resume(ticket).await.map_err(|error| not_renewed(&error, "until its old end"))
    }

    /// Releases a lease that this process has, or returns that it had ended here.
    async fn release_here(&self, id: &str) -> Option<Result<Released, ReleaseError>> {
        let entry = self.table.remove(id)?;
        // A renewal may be in flight.
        let lease = entry.lease.lock().await.take()?;
        if lease.valid_for().is_zero() && entry.known.ticket.is_some() {
            lease.leave();
            return None;
        }
        Some(lease.release().await)
    }
}

/// Rounds a TTL up to one of a few values, because each different TTL opens a session.
fn rounded(ttl: Duration) -> Duration {
    let step = 10_u64.pow(millis(ttl).checked_ilog10().unwrap_or_default());
    let mut classes = [1, 2, 3, 6].into_iter().map(|digit| Duration::from_millis(digit * step));
    classes.find(|class| *class >= ttl).unwrap_or(Duration::from_millis(10 * step))
}

async fn acquire_request(request: Request) -> Result<AcquireRequest, Refused> {
    let (parts, body) = request.into_parts();
    let bytes = match Limited::new(body, MAX_BODY).collect().await {
        Ok(bytes) => bytes.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(TOO_LONG.because(format_args!("the body has more than {MAX_BODY} bytes")));
        }
        Err(error) => return Err(MALFORMED.because(error)),
    };
    if bytes.is_empty() {
        return Ok(AcquireRequest::default());
    }
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(JSON) {
        return Err(NOT_JSON.because("the body must be JSON: send Content-Type: application/json"));
    }
    // serde would take an array, too, by the order of the fields.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(MALFORMED.because("the body must be a JSON object"));
    }
    serde_json::from_slice(&bytes).map_err(|error| MALFORMED.because(error))
}
