use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Connection;
use sqlx::error::DatabaseError;

use crate::protocol::Owner;
use crate::resource::Resource;

/// A database that can keep leases. Sealed: each needs its own statements and its own
/// proof.
pub trait Database: Backend {}

impl<DB: Backend> Database for DB {}

/// What one attempt asks for.
pub struct Claim {
    pub resource: Resource,
    /// In hexadecimal. New for every attempt, so that no statement of one attempt can
    /// touch the row of another.
    pub owner: String,
    /// How long the row is closed unless it is renewed, in milliseconds.
    pub lasting: i64,
    /// How long the statement may wait for other transactions, in milliseconds.
    pub patience: i64,
}

impl Claim {
    pub fn new(resource: &Resource, owner: Owner, lasting: Duration, patience: Duration) -> Claim {
        let owner = owner.to_string();
        let (lasting, patience) = (millis(lasting), millis(patience));
        Claim { resource: resource.clone(), owner, lasting, patience }
    }
}

/// Rounded up: the database must not let go before the client does.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// What came of a claim.
pub enum AcquireAnswer {
    /// Granted, with this token.
    Granted(i64),
    /// Another has it, for so many milliseconds.
    Held(i64),
    /// It was free, and another was faster.
    Overtaken,
}

/// What came of an extension.
pub enum RenewAnswer {
    /// The row is closed for as long as was asked for.
    Renewed,
    /// Another has come.
    Superseded,
    /// The row was set free, or is not there.
    Gone,
}

/// What a database's refusal of a statement or a connection means.
pub enum Refusal {
    /// Another transaction was in the way; the same statement may succeed when run again.
    Conflict,
    /// The tables are not there.
    NoTable,
    /// The user may not do that, or is not who it says.
    Denied,
    /// The server ends the session.
    Closing,
    /// The server starts, or recovers.
    Starting,
    /// Anything else.
    Other,
}

/// One database: its statements, its clock, its error codes.
///
/// Each call is at most one statement that writes, outside any transaction, or one
/// procedure that is a transaction. All of its answer is read before it counts: an error
/// of the commit comes last.
pub trait Backend: sqlx::Database {
    /// The database, as an operator knows it; without user and password.
    fn name(options: &<Self::Connection as Connection>::Options) -> String;

    /// What the error means.
    fn refusal(error: &dyn DatabaseError) -> Refusal;

    /// Takes the row of the resource if it is free or has expired by the database's
    /// clock, with a token above all that the row and the mark have seen.
    fn acquire<'a>(
        conn: &'a mut Self::Connection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>>;

    /// Closes the row again for as long as the claim lasts, from now on, if it is still
    /// this owner's under this token and was not released.
    fn renew<'a>(
        conn: &'a mut Self::Connection,
        claim: &'a Claim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<RenewAnswer>>;

    /// Releases the row if it is this owner's, and says whether it was closed until now,
    /// or had been released by this owner before.
    fn release<'a>(
        conn: &'a mut Self::Connection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<bool>>;

    /// Reads from the tables, to see whether that can be done.
    fn probe(conn: &mut Self::Connection) -> BoxFuture<'_, sqlx::Result<()>>;
}
