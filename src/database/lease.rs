use std::time::Duration;

use fencing_protocol::{Mode, Resource, Token};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use sqlx::Pool;
use tokio::time::Instant;

use super::{Dialect, TextRow, fill};
use crate::holder::Holder;

/// The request of one attempt.
pub struct LeaseClaim {
    pub resource: Resource,
    pub mode: Mode,
    /// 32 hexadecimal digits, a space, and the name of the holder, for display. New for every attempt,
    /// so that no statement of one attempt can touch the row of another.
    pub owner: String,
    /// TTL and lock-delay, in milliseconds.
    pub lasting: i64,
    /// Time limit of waits for other transactions, in milliseconds.
    pub patience: i64,
}

impl LeaseClaim {
    pub fn new(resource: Resource, mode: Mode, owner: &str, lasting: Duration, patience: Duration) -> LeaseClaim {
        let (lasting, patience) = (millis(lasting), millis(patience));
        LeaseClaim { resource, mode, owner: owner.to_owned(), lasting, patience }
    }
}

/// Rounds up: the database must not let go before the client does.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

pub enum AcquireAnswer {
    Granted(Token),
    Held {
        left: Duration,
        /// Whether the claim is exclusive and the row is shared.
        shared: bool,
        /// The owner in the row; of several, the one whose part ends last.
        holder: Option<Holder>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// The row is free now.
    Freed,
    /// The row is still held, by others or for the rest.
    Left,
    /// The lease was over before.
    Lapsed,
}

/// A request about the row of a claim, and the columns of the database's answer.
#[derive(Clone, Copy)]
pub enum LeaseCall {
    /// Acquires the row if it is free or expired by the database's clock, with a token above all of the row and the
    /// mark. A shared claim joins the holders of a shared row, with the row's token, unless a writer waits for them to
    /// leave. Answers with the token; or NULL, the milliseconds it is held, whether it is shared, and its holder.
    Acquire,
    /// Extends the row, or this owner's part, to the claim's duration from now if owner and token still match. Answers
    /// whether they did: if not, no later renewal can succeed.
    Renew { token: Token },
    /// Releases the row, or the part, of this owner. An exclusive lease that this owner had released before counts as
    /// released. A lease released early stays held for the rest, in milliseconds, under a name by which no renewal in
    /// flight finds it. Answers with 2 if the row is free now, and 1 if it is still held.
    Release { rest: i64 },
    /// Keeps others from joining the shared row while the claim lasts. Nothing depends on it: it need not be on disk.
    Drain,
}

type Called<'c, T> = BoxFuture<'c, sqlx::Result<T>>;

/// The leases in one database, by its own clock.
pub trait LeaseStatements: Dialect {
    /// Reads `{limit}` leases whose resource compares to `{resource}` by the operator `{after}`, such as `=`. Columns:
    /// resource, token, the row's owner, the holder, and for how many milliseconds; and the parts
    /// where Rust has to split them: then the holder is the time in microseconds.
    const LEASES: &'static str;

    /// Ends the lease of this `{resource}`, `{owner}` and `{token}`, if it has not ended, records that in the audit,
    /// and returns a row then. It runs in a transaction.
    const END_LEASE: &'static str;

    /// Reads from the tables, to see whether that works, and writes nothing. A row says why no lease is granted.
    const PROBE: &'static str;

    /// Notifies all that listen of the release of `{resource}`, where the database can.
    const NOTIFY: Option<&'static str> = None;

    /// Opens a connection of its own that listens, with the options of this pool, and returns the names of resources
    /// that are released. Fails where it does not receive what is sent through the pool.
    fn listen(_: Pool<Self>) -> impl Future<Output = sqlx::Result<BoxStream<'static, sqlx::Result<String>>>> + Send {
        async { Err(sqlx::Error::Configuration("this database sends no notifications".into())) }
    }

    /// Calls the function or procedure that answers, `fencing_lease_acquire` or one of its siblings: a `{function}`
    /// with `{arguments}`. It waits no longer for others than `{patience}` says, in milliseconds. A database that has
    /// none answers a [`call`](LeaseStatements::call) by other statements.
    const CALL: &'static str = "";

    /// Asks about the row of a claim, and returns the row that answers, if any. An exclusive lease is a single part:
    /// only a claim decides whether the row is shared. Each call is a function, a procedure or statements that commit
    /// by themselves outside of transactions. All of an answer is read before it counts: commit errors come last.
    fn call(
        conn: &mut Self::Connection,
        claim: &LeaseClaim,
        call: LeaseCall,
    ) -> impl Future<Output = sqlx::Result<TextRow>> + Send {
        let LeaseClaim { mode, lasting, patience, .. } = claim;
        let shared = *mode == Mode::Shared;
        let [resource, owner] = [claim.resource.as_str(), &claim.owner].map(Self::literal);
        let (function, arguments) = match call {
            LeaseCall::Acquire => ("acquire", format!("{resource}, {owner}, {shared}, {lasting}")),
            LeaseCall::Renew { token } => ("renew", format!("{resource}, {owner}, {token}, {lasting}")),
            LeaseCall::Release { rest } => ("release", format!("{resource}, {owner}, {rest}")),
            LeaseCall::Drain => ("drain", format!("{resource}, {lasting}")),
        };
        let sql = fill(Self::CALL, &[("{function}", &function), ("{arguments}", &arguments), ("{patience}", patience)]);
        async { Ok(Self::texts(conn, sql).await?.into_iter().next().unwrap_or_default()) }
    }

    /// Calls, and parses the answer, as those below do: one that cannot be parsed is an error of the call.
    fn acquire<'c>(conn: &'c mut Self::Connection, claim: &'c LeaseClaim) -> Called<'c, AcquireAnswer> {
        Box::pin(async {
            let answer = Self::call(conn, claim, LeaseCall::Acquire).await?;
            if let Some(token) = answer.number::<i64>(0) {
                let unfit = |error| sqlx::Error::Decode(format!("token {token}: {error}").into());
                return Token::try_from(token).map(AcquireAnswer::Granted).map_err(unfit);
            }
            let left = answer.number::<i64>(1).ok_or(sqlx::Error::RowNotFound)?;
            Ok(AcquireAnswer::Held {
                left: Duration::from_millis(u64::try_from(left).unwrap_or(0)),
                shared: answer.is_true(2) && claim.mode == Mode::Exclusive,
                holder: answer.text(3).and_then(Holder::read),
            })
        })
    }

    fn renew<'c>(conn: &'c mut Self::Connection, claim: &'c LeaseClaim, token: Token) -> Called<'c, bool> {
        Box::pin(async move { Ok(Self::call(conn, claim, LeaseCall::Renew { token }).await?.is_true(0)) })
    }

    fn release<'c>(conn: &'c mut Self::Connection, claim: &'c LeaseClaim, end: Instant) -> Called<'c, ReleaseAnswer> {
        let rest = millis(end.saturating_duration_since(Instant::now()));
        Box::pin(async move {
            Ok(match Self::call(conn, claim, LeaseCall::Release { rest }).await?.number(0) {
                Some(2) => ReleaseAnswer::Freed,
                Some(1) => ReleaseAnswer::Left,
                _ => ReleaseAnswer::Lapsed,
            })
        })
    }

    fn drain<'c>(conn: &'c mut Self::Connection, claim: &'c LeaseClaim) -> Called<'c, ()> {
        Box::pin(async { Self::call(conn, claim, LeaseCall::Drain).await.map(drop) })
    }
}
