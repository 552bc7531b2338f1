use std::fmt::Display;
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::future::BoxFuture;
use sqlx::Pool;

/// What one attempt asks for.
pub struct Claim {
    pub resource: Resource,
    /// In hexadecimal, 32 digits, and behind a space the name of the holder, for people. New for every attempt,
    /// so that no statement of one attempt can touch the row of another.
    pub owner: String,
    /// How long the row is closed unless it is renewed, in milliseconds.
    pub lasting: i64,
    /// How long the statement may wait for other transactions, in milliseconds.
    pub patience: i64,
    /// Whether it asks for a part in a row that others may share.
    pub shared: bool,
}

impl Claim {
    pub fn new(
        resource: &Resource,
        owner: impl Display,
        lasting: Duration,
        patience: Duration,
    ) -> Claim {
        let owner = owner.to_string();
        let (lasting, patience) = (millis(lasting), millis(patience));
        Claim { resource: resource.clone(), owner, lasting, patience, shared: false }
    }

    /// Asks for a part in the row.
    pub fn shared(self, shared: bool) -> Claim {
        Claim { shared, ..self }
    }
}

/// Rounds up: the database must not let go before the client does.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// What came of a claim.
pub enum AcquireAnswer {
    /// The lease is granted, with this token.
    Granted(i64),
    /// Others stand in the way.
    Held {
        /// For how many milliseconds.
        left: i64,
        /// Whether they share the row.
        shared: bool,
        /// What stands in the row as its owner; of those who share it, the one whose part ends last.
        holder: Option<String>,
    },
    /// It was free, and another owner was faster.
    Overtaken,
}

/// What came of a release.
pub enum ReleaseAnswer {
    /// The row was closed until now, and is free, or will be after the rest.
    Released,
    /// The part was held until now. Others have parts still, or the rest of this one stays.
    Left,
    /// It was over before.
    Lapsed,
}

impl ReleaseAnswer {
    /// Takes whether the row, which one held alone, was closed until now.
    pub fn alone(held: bool) -> ReleaseAnswer {
        if held { ReleaseAnswer::Released } else { ReleaseAnswer::Lapsed }
    }
}

/// What a database does for leases: its statements and its clock.
///
/// Each call is at most one statement that writes, outside any transaction, or one
/// procedure that is a transaction. All of its answer is read before it counts: an error
/// of the commit comes last.
pub trait LeaseStatements: sqlx::Database {
    /// Acquires the row of the resource if it is free or has expired by the database's
    /// clock, with a token above all that the row and the mark have seen. A claim for a part joins others
    /// who share the row, with the row's token, unless somebody waits for them to leave.
    fn acquire<'a>(
        conn: &'a mut Self::Connection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>>;

    /// Closes the row again for as long as the claim lasts, from now on, if it is still
    /// this owner's under this token and was not released; or keeps this owner's part for as long. Returns
    /// whether it is: if not, no later renewal can succeed.
    fn renew<'a>(
        conn: &'a mut Self::Connection,
        claim: &'a Claim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<bool>>;

    /// Releases the row if it is this owner's, or this owner's part. A row that this owner had
    /// released before counts as released. A row or part that is released early stays closed for the
    /// `rest`, under a name by which no renewal that is still on its way finds it.
    fn release<'a>(
        conn: &'a mut Self::Connection,
        claim: &'a Claim,
        rest: Duration,
    ) -> BoxFuture<'a, sqlx::Result<ReleaseAnswer>>;

    /// Keeps others from joining those who share the row, for as long as the claim lasts. A hint: it
    /// need not be on disk.
    fn drain<'a>(
        conn: &'a mut Self::Connection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<()>>;

    /// Whether the database can tell of releases.
    const TELLS: bool = false;

    /// Tells those who listen on the channel.
    fn tell<'a>(
        conn: &'a mut Self::Connection,
        channel: &'a str,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        let _ = (conn, channel);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Opens a connection of its own that listens to channels, with the options of this pool. Fails
    /// where it does not hear what is told through the pool.
    fn listen(pool: Pool<Self>) -> BoxFuture<'static, sqlx::Result<Box<dyn Channels>>> {
        drop(pool);
        Box::pin(std::future::ready(Err(sqlx::Error::Configuration("it tells nothing".into()))))
    }

    /// Reads from the tables, to see whether that works.
    fn probe(conn: &mut Self::Connection) -> BoxFuture<'_, sqlx::Result<()>>;
}

/// A connection that listens to channels.
pub trait Channels: Send {
    /// Listens to the channel from now on, or no more.
    fn listen<'a>(&'a mut self, channel: &'a str, on: bool) -> BoxFuture<'a, sqlx::Result<()>>;

    /// Waits until something is told, and returns the channel. Dropped, it loses nothing.
    fn told(&mut self) -> BoxFuture<'_, sqlx::Result<String>>;
}
