use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fencing_protocol::{Fault, Mode, Resource, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use sqlx::Pool;
use sqlx::pool::PoolConnection;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

use super::{fault, operator};
use crate::backoff::Backoff;
use crate::database::{AcquireAnswer, Database, LeaseClaim, ReleaseAnswer, TextRow, fill, is_conflict, meaning};
use crate::lock::error::NodeCause;
use crate::random::jitter;
use crate::time::Clock;

/// The longest wait for the answer to a claim, and for a release to succeed whose first try has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_CONFLICT_PAUSE: Duration = Duration::from_millis(10);
const MAX_RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// The table of leases in one database, and the way to it.
#[derive(derive_more::Debug)]
#[debug("LeaseTable({name:?})")]
pub struct LeaseTable<DB: Database> {
    pool: Pool<DB>,
    /// One connection more, for renewals and releases, which must not wait until the application is less busy. It is
    /// opened when the pool has none free, and stays until the pool is closed or the lock service is dropped.
    reserve: OnceLock<(Pool<DB>, AbortOnDropHandle<()>)>,
    pub(super) name: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) in_flight: InFlight,
}

#[derive(Clone, Copy)]
struct Limits {
    /// The call is repeated after conflicts until this time has passed. It waits for a connection for three quarters of
    /// it, which leaves time to report that none was free: the pool itself tries again until then.
    budget: Duration,
    /// The call fails if it has no answer when this time has passed since its start.
    answer: Duration,
    /// The call takes the reserve if the pool has had no free connection for a quarter of the budget.
    reserve: bool,
}

impl Limits {
    fn of(budget: Duration) -> Limits {
        Limits { budget, answer: budget, reserve: false }
    }
}

impl<DB: Database> LeaseTable<DB> {
    pub(super) fn new(pool: Pool<DB>, clock: Arc<dyn Clock>) -> LeaseTable<DB> {
        let name = DB::name(&pool.connect_options());
        LeaseTable { pool, reserve: OnceLock::new(), name, clock, in_flight: InFlight::default() }
    }

    pub(super) fn cause(&self, cause: Fault) -> NodeCause {
        NodeCause { node: self.name.clone(), cause }
    }

    /// Acquires the row. It waits far longer than any caller: a release that overtook it would find nothing to release.
    pub(super) async fn acquire(&self, claim: &LeaseClaim, budget: Duration) -> Result<AcquireAnswer, Fault> {
        let limits = Limits { answer: ANSWER_TIMEOUT.max(budget), ..Limits::of(budget) };
        self.call(claim, limits, DB::acquire).await
    }

    pub(super) async fn renew(&self, claim: &LeaseClaim, token: Token, budget: Duration) -> Result<bool, Fault> {
        let limits = Limits { reserve: true, ..Limits::of(budget) };
        self.call(claim, limits, |conn, claim| DB::renew(conn, claim, token)).await
    }

    /// Returns for how long the row is held under this claim and this token still, by the database's clock.
    pub(super) async fn left(&self, claim: &LeaseClaim, token: Token, budget: Duration) -> Result<Duration, Fault> {
        let list = operator::list::<DB>("=", claim.resource.as_str(), 1);
        let rows = self.run(&list, Limits { reserve: true, ..Limits::of(budget) }).await?;
        let mut ours = operator::parsed(&rows).filter(|lease| lease.owner == claim.owner && lease.token == token);
        Ok(ours.next().and_then(|lease| lease.remaining).unwrap_or_default())
    }

    /// Releases the lease, which stays held until `closed`, and returns whether it was held until now, by the first
    /// try. If that fails, or has no answer within two budgets, a task keeps trying, over other connections, until the
    /// pool is closed: the owner in the claim keeps it from other leases.
    pub(super) async fn release(
        self: &Arc<Self>,
        claim: Arc<LeaseClaim>,
        budget: Duration,
        closed: Instant,
    ) -> Result<bool, Fault> {
        let mut answer = self.try_release(&claim, budget, closed).await;
        let held = answer.clone().map(|answer| answer != ReleaseAnswer::Lapsed);
        if answer.is_err() || DB::NOTIFY.is_some() && answer == Ok(ReleaseAnswer::Freed) {
            let (table, counted) = (Arc::clone(self), self.in_flight.all.token());
            let end = Instant::now() + ANSWER_TIMEOUT;
            let finish = async move {
                let mut backoff = Backoff::new(MAX_CONFLICT_PAUSE * 2, MAX_RELEASE_PAUSE);
                while answer.is_err() && Instant::now() < end && !table.pool.is_closed() {
                    sleep(backoff.pause()).await;
                    answer = table.try_release(&claim, budget, closed).await;
                }
                // The try before may have freed it.
                if answer.is_ok() {
                    table.notify(&claim.resource, budget).await;
                }
                drop(counted);
            };
            tokio::spawn(finish.in_current_span());
        }
        held
    }

    /// Notifies other processes, in a transaction of its own: PostgreSQL commits those that
    /// notify one after another, and this one has nothing to write to disk.
    async fn notify(&self, resource: &Resource, budget: Duration) {
        let Some(notify) = DB::NOTIFY else { return };
        let notify = fill(notify, &[("{resource}", &DB::literal(resource.as_str()))]);
        if let Err(fault) = self.run(&notify, Limits::of(budget)).await {
            tracing::debug!(%resource, %fault, "no notification of a release");
        }
    }

    /// Keeps others from joining the shared row, in a separate task. If that fails, the waiter asks again.
    pub(super) fn drain(self: &Arc<Self>, resource: &Resource, lasting: Duration, budget: Duration) {
        let (table, hint) = (Arc::clone(self), self.in_flight.all.token());
        let claim = LeaseClaim::new(resource.clone(), Mode::Exclusive, "", lasting, budget);
        let drain = async move {
            if let Err(fault) = table.call(&claim, Limits::of(budget), DB::drain).await {
                tracing::debug!(resource = %claim.resource, %fault, "others may still join");
            }
            drop(hint);
        };
        tokio::spawn(drain.in_current_span());
    }

    async fn try_release(&self, claim: &LeaseClaim, budget: Duration, closed: Instant) -> Result<ReleaseAnswer, Fault> {
        // After the server has given up its wait for the row: that costs no connection.
        let limits = Limits { budget, answer: budget * 2, reserve: true };
        self.call(claim, limits, |conn, claim| DB::release(conn, claim, closed)).await
    }

    pub(super) async fn probe(&self, budget: Duration) -> Result<(), Fault> {
        let rows = self.run(DB::PROBE, Limits::of(budget)).await?;
        let why = rows.first().and_then(|row| row.text(0));
        why.map_or(Ok(()), |why| Err(Fault::Refused(why.to_owned())))
    }

    async fn run(&self, sql: &str, limits: Limits) -> Result<Vec<TextRow>, Fault> {
        self.call(sql, limits, |conn, sql| DB::texts(conn, sql.to_owned()).boxed()).await
    }

    /// Runs statements on a connection, and again after a conflict with other transactions.
    async fn call<T, C: Sync + ?Sized>(
        &self,
        context: &C,
        limits: Limits,
        run: impl for<'c> Fn(&'c mut DB::Connection, &'c C) -> BoxFuture<'c, sqlx::Result<T>>,
    ) -> Result<T, Fault> {
        let start = Instant::now();
        loop {
            let conn = self.connection(start, limits).await.map_err(fault::of_connection)?;
            // If this is dropped, or below too late, the pool would wait for the answer for ever.
            let mut conn = guard(conn, |mut conn| {
                if DB::CAN_HANG {
                    conn.close_on_drop();
                }
            });
            let answer = timeout_at(start + limits.answer, run(&mut conn, context)).await;
            let mut conn = ScopeGuard::into_inner(conn);
            let error = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => {
                    conn.close_on_drop();
                    return Err(Fault::TimedOut);
                }
            };
            let pause = jitter(MAX_CONFLICT_PAUSE);
            let conflict = is_conflict(&error);
            // An answer that cannot be read does not show what it has left in the session.
            if meaning(&error).is_none() || DB::KEEPS_SESSION_STATE && !conflict {
                conn.close_on_drop();
            }
            if !conflict || Instant::now() + pause >= start + limits.budget {
                return Err(fault::of_statement(error));
            }
            drop(conn);
            sleep(pause).await;
        }
    }

    async fn connection(&self, start: Instant, limits: Limits) -> sqlx::Result<PoolConnection<DB>> {
        let end = start + limits.budget * 3 / 4;
        let shared = if limits.reserve { start + limits.budget / 4 } else { end };
        let conn = timeout_at(shared, self.pool.acquire()).await;
        match conn.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Err(sqlx::Error::PoolTimedOut) if limits.reserve => {
                let (reserve, _) = self.reserve.get_or_init(|| open_reserve(&self.pool));
                let conn = timeout_at(end, reserve.acquire()).await;
                conn.unwrap_or(Err(sqlx::Error::PoolTimedOut))
            }
            conn => conn,
        }
    }
}

/// Returns a pool of one connection beside those of the application, and the task that closes it with theirs. Dropped,
/// the task ends: its handle would keep the pool open.
fn open_reserve<DB: Database>(shared: &Pool<DB>) -> (Pool<DB>, AbortOnDropHandle<()>) {
    let options = shared.options().clone().min_connections(0).max_connections(1).idle_timeout(None);
    let pool = options.connect_lazy_with((*shared.connect_options()).clone());
    let (closed, own) = (shared.close_event(), pool.clone());
    let closes = tokio::spawn(async move {
        closed.await;
        own.close().await;
    });
    (pool, AbortOnDropHandle::new(closes))
}

/// The statements of this process in flight to the database, by resource. They take any connection of the pool, in any
/// order, but a caller that drops a lease, or an attempt, and asks again must not be delayed by its own release.
#[derive(Default)]
pub(super) struct InFlight {
    by_resource: Mutex<HashMap<Resource, Vec<CancellationToken>>>,
    /// All statements, and those for which nobody has to wait: notifications, drains, releases that are tried again.
    pub(super) all: TaskTracker,
}

/// A statement in flight, until it is dropped.
pub(super) type InFlightStatement = (DropGuard, TaskTrackerToken);

impl InFlight {
    pub(super) fn enter(&self, resource: &Resource) -> InFlightStatement {
        let ended = CancellationToken::new();
        let mut resources = self.by_resource.lock();
        if resources.len() >= 64 && resources.len().is_power_of_two() {
            resources.retain(|_, statements| statements.iter().any(|ended| !ended.is_cancelled()));
        }
        let statements = resources.entry(resource.clone()).or_default();
        statements.retain(|ended| !ended.is_cancelled());
        statements.push(ended.clone());
        (ended.drop_guard(), self.all.token())
    }

    /// Waits for the end of all statements that are in flight for the resource now.
    pub(super) async fn clear(&self, resource: &Resource) {
        let ahead = self.by_resource.lock().get(resource).cloned().unwrap_or_default();
        for ended in ahead {
            ended.cancelled().await;
        }
    }
}
