use std::fmt::Display;
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use sqlx::Pool;

use super::quoted::fill;
use super::{Dialect, TextRow};

/// The request of one attempt.
pub struct LeaseClaim {
    pub resource: Resource,
    /// 32 hexadecimal digits, a space, and the name of the holder, for display. New for every attempt,
    /// so that no statement of one attempt can touch the row of another.
    pub owner: String,
    /// TTL and lock-delay, in milliseconds.
    pub lasting: i64,
    /// Time limit of waits for other transactions, in milliseconds.
    pub patience: i64,
    /// Whether the row may be shared.
    pub shared: bool,
}

impl LeaseClaim {
    pub fn new(resource: &Resource, owner: impl Display, lasting: Duration, patience: Duration) -> LeaseClaim {
        let owner = owner.to_string();
        let (lasting, patience) = (millis(lasting), millis(patience));
        LeaseClaim { resource: resource.clone(), owner, lasting, patience, shared: false }
    }
}

/// Rounds up: the database must not let go before the client does.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// The result of a claim.
pub enum AcquireAnswer {
    /// The lease is granted, with this token.
    Granted(i64),
    /// The row is held.
    Held {
        /// For how many milliseconds.
        left: i64,
        /// Whether the claim is exclusive and the row is shared.
        shared: bool,
        /// The owner in the row; of several, the one whose part ends last.
        holder: Option<String>,
    },
}

/// The result of a release.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// The row is free now.
    Freed,
    /// The row is still held, by others or for the rest.
    Left,
    /// The lease was over before.
    Lapsed,
}

impl From<i64> for ReleaseAnswer {
    /// Reads the number that the procedures return.
    fn from(number: i64) -> ReleaseAnswer {
        match number {
            2 => ReleaseAnswer::Freed,
            1 => ReleaseAnswer::Left,
            _ => ReleaseAnswer::Lapsed,
        }
    }
}

/// The statements for leases in one database, by its own clock.
///
/// An exclusive lease is a single part: only a claim decides whether the row is shared. Each call is a function, a
/// procedure or statements that commit by themselves, outside of any other transaction. All of an answer is read before
/// it counts: an error of the commit comes last.
pub trait LeaseStatements: sqlx::Database {
    /// Acquires the row of the resource if it is free or has expired by the database's
    /// clock, with a token above all that the row and the mark have seen. A shared claim joins the holders
    /// of a shared row, with the row's token, unless a writer waits for them to leave.
    fn acquire(
        conn: &mut Self::Connection,
        claim: &LeaseClaim,
    ) -> impl Future<Output = sqlx::Result<AcquireAnswer>> + Send;

    /// Closes the row again, or keeps the part, for as long as the claim lasts, from now on, if this owner
    /// still has it under this token. Returns whether it has: if not, no later renewal can succeed.
    fn renew(
        conn: &mut Self::Connection,
        claim: &LeaseClaim,
        token: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Releases the row, or the part, of this owner. An exclusive lease that this owner had released before counts as
    /// released. A lease released early stays held for the `rest`, under a name by which no renewal in flight finds it.
    fn release(
        conn: &mut Self::Connection,
        claim: &LeaseClaim,
        rest: Duration,
    ) -> impl Future<Output = sqlx::Result<ReleaseAnswer>> + Send;

    /// Keeps others from joining the shared row, for as long as the claim lasts. Nothing depends on
    /// it: it need not be on disk.
    fn drain(conn: &mut Self::Connection, claim: &LeaseClaim) -> impl Future<Output = sqlx::Result<()>> + Send;
}

/// What one database says of its leases.
pub trait LeaseQueries: sqlx::Database {
    /// Reads `{limit}` leases whose resource compares to `{resource}` by the operator `{after}`, such as `=`. Columns:
    /// resource, token, the row's owner, the holder, and for how many milliseconds; and the parts
    /// where Rust has to split them: then the holder is the time in microseconds.
    const LEASES: &'static str;

    /// Ends the lease of this `{resource}`, `{owner}` and `{token}`, if it has not ended, records that in the audit,
    /// and returns a row then. It runs in a transaction.
    const END_LEASE: &'static str;

    /// Reads from the tables, to see whether that works.
    const PROBE: &'static str;

    /// Notifies all that listen of the release of `{resource}`, where the database can.
    const NOTIFY: Option<&'static str> = None;

    /// Opens a connection of its own that listens, with the options of this pool, and returns the names of resources
    /// that are released. Fails where it does not receive what is sent through the pool.
    fn listen(_: Pool<Self>) -> BoxFuture<'static, sqlx::Result<BoxStream<'static, sqlx::Result<String>>>> {
        let error = sqlx::Error::Configuration("this database sends no notifications".into());
        Box::pin(std::future::ready(Err(error)))
    }
}

/// A database with functions or procedures for leases: the migrations create `fencing_lease_acquire` and its siblings.
pub trait LeaseFunctions: Dialect {
    /// Calls one of them, `{function}`, with `{arguments}`, and waits no longer for others than `{patience}` says, in
    /// milliseconds.
    const CALL: &'static str;
}

/// Calls a function about the row of a claim. Returns the row with which it answers, if any.
async fn call<DB: LeaseFunctions>(
    conn: &mut DB::Connection,
    claim: &LeaseClaim,
    function: &str,
    arguments: String,
) -> sqlx::Result<TextRow> {
    let arguments = format!("{}, {arguments}", DB::literal(claim.resource.as_str()));
    let call =
        fill(DB::CALL, &[("{function}", &function), ("{arguments}", &arguments), ("{patience}", &claim.patience)]);
    Ok(DB::texts(conn, call).await?.into_iter().next().unwrap_or_default())
}

impl<DB: LeaseFunctions> LeaseStatements for DB {
    async fn acquire(conn: &mut DB::Connection, claim: &LeaseClaim) -> sqlx::Result<AcquireAnswer> {
        let (owner, shared) = (DB::literal(&claim.owner), claim.shared);
        let arguments = format!("{owner}, {shared}, {}", claim.lasting);
        let answer = call::<DB>(conn, claim, "acquire", arguments).await?;
        if let Some(token) = answer.number(0) {
            return Ok(AcquireAnswer::Granted(token));
        }
        let left = answer.number(1).ok_or(sqlx::Error::RowNotFound)?;
        let shared = answer.is_true(2) && !claim.shared;
        Ok(AcquireAnswer::Held { left, shared, holder: answer.owned(3) })
    }

    async fn renew(conn: &mut DB::Connection, claim: &LeaseClaim, token: i64) -> sqlx::Result<bool> {
        let owner = DB::literal(&claim.owner);
        let arguments = format!("{owner}, {token}, {}", claim.lasting);
        let answer = call::<DB>(conn, claim, "renew", arguments).await?;
        Ok(answer.is_true(0))
    }

    async fn release(conn: &mut DB::Connection, claim: &LeaseClaim, rest: Duration) -> sqlx::Result<ReleaseAnswer> {
        let arguments = format!("{}, {}", DB::literal(&claim.owner), millis(rest));
        let answer = call::<DB>(conn, claim, "release", arguments).await?;
        Ok(answer.number::<i64>(0).unwrap_or_default().into())
    }

    async fn drain(conn: &mut DB::Connection, claim: &LeaseClaim) -> sqlx::Result<()> {
        call::<DB>(conn, claim, "drain", claim.lasting.to_string()).await.map(drop)
    }
}
