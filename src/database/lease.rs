use std::fmt::Display;
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::stream::BoxStream;
use sqlx::Pool;
use tokio::time::Instant;

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
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

pub(super) fn millis_until(end: Instant) -> i64 {
    millis(end.saturating_duration_since(Instant::now()))
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

impl AcquireAnswer {
    /// Reads the answer to [`LeaseCall::Acquire`].
    pub fn read(claim: &LeaseClaim, answer: &TextRow) -> sqlx::Result<AcquireAnswer> {
        if let Some(token) = answer.number(0) {
            return Ok(AcquireAnswer::Granted(token));
        }
        let left = answer.number(1).ok_or(sqlx::Error::RowNotFound)?;
        Ok(AcquireAnswer::Held { left, shared: answer.is_true(2) && !claim.shared, holder: answer.owned(3) })
    }
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

impl ReleaseAnswer {
    /// Reads the answer to [`LeaseCall::Release`].
    pub fn read(answer: &TextRow) -> ReleaseAnswer {
        match answer.number(0) {
            Some(2) => ReleaseAnswer::Freed,
            Some(1) => ReleaseAnswer::Left,
            _ => ReleaseAnswer::Lapsed,
        }
    }
}

/// What is asked about the row of a claim, and with which columns the database answers.
#[derive(Clone, Copy)]
pub enum LeaseCall {
    /// Acquires the row if it is free or has expired by the database's clock, with a token above all that the row and
    /// the mark have seen. A shared claim joins the holders of a shared row, with the row's token, unless a writer
    /// waits for them to leave. Answers with the token; or NULL, for how many milliseconds the row is held, whether it
    /// is shared, and its holder.
    Acquire,
    /// Closes the row again, or keeps the part, for as long as the claim lasts, from now on, if this owner still has it
    /// under this token. Answers whether it has: if not, no later renewal can succeed.
    Renew { token: i64 },
    /// Releases the row, or the part, of this owner. An exclusive lease that this owner had released before counts as
    /// released. A lease released early stays held until `closed`, under a name by which no renewal in flight finds it.
    /// Answers with 2 if the row is free now, and 1 if it is still held.
    Release { closed: Instant },
    /// Keeps others from joining the shared row, for as long as the claim lasts. Nothing depends on it: it need not be
    /// on disk.
    Drain,
}

/// The leases in one database, by its own clock.
pub trait LeaseStatements: Dialect {
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
    fn listen(_: Pool<Self>) -> impl Future<Output = sqlx::Result<BoxStream<'static, sqlx::Result<String>>>> + Send {
        async { Err(sqlx::Error::Configuration("this database sends no notifications".into())) }
    }

    /// Asks about the row of a claim, and returns the row with which the database answers, if any.
    ///
    /// An exclusive lease is a single part: only a claim decides whether the row is shared. Each call is a function, a
    /// procedure or statements that commit by themselves, outside of any other transaction. All of an answer is read
    /// before it counts: an error of the commit comes last.
    fn call(
        conn: &mut Self::Connection,
        claim: &LeaseClaim,
        call: LeaseCall,
    ) -> impl Future<Output = sqlx::Result<TextRow>> + Send;
}

/// Calls the function or procedure that answers, `fencing_lease_acquire` or one of its siblings. The statement calls a
/// `{function}` with `{arguments}`, and waits no longer for others than `{patience}` says, in milliseconds.
#[allow(dead_code, reason = "SQLite has no functions of its own")]
pub(super) async fn call_function<DB: Dialect>(
    conn: &mut DB::Connection,
    statement: &str,
    claim: &LeaseClaim,
    call: LeaseCall,
) -> sqlx::Result<TextRow> {
    let [resource, owner] = [claim.resource.as_str(), &claim.owner].map(DB::literal);
    let (function, arguments) = match call {
        LeaseCall::Acquire => ("acquire", format!("{resource}, {owner}, {}, {}", claim.shared, claim.lasting)),
        LeaseCall::Renew { token } => ("renew", format!("{resource}, {owner}, {token}, {}", claim.lasting)),
        LeaseCall::Release { closed } => ("release", format!("{resource}, {owner}, {}", millis_until(closed))),
        LeaseCall::Drain => ("drain", format!("{resource}, {}", claim.lasting)),
    };
    let values: [(_, &(dyn Display + Sync)); 3] =
        [("{function}", &function), ("{arguments}", &arguments), ("{patience}", &claim.patience)];
    Ok(DB::texts(conn, fill(statement, &values)).await?.into_iter().next().unwrap_or_default())
}
