use futures_util::future::BoxFuture;
use sqlx::Pool;
use sqlx::migrate::{Migrate, Migrator};

use super::{AdmitError, MigrateError, Protect, message};
use crate::fence::Stale;
use crate::resource::Resource;
use crate::token::Token;

/// A database that can hold the marks. Sealed: each needs its own locks and its own proof.
pub trait Database: Backend {}

impl<DB: Backend> Database for DB {}

/// A name and its number, as they stand in the table.
pub type Row = (Vec<u8>, Option<i64>);

/// What a database's refusal of a statement means.
pub enum Refusal {
    /// Another transaction was in the way; the same one may succeed when run again.
    Conflict,
    /// The table of the marks is not there, or one of the functions.
    NoTable,
    /// A function, procedure or trigger of this crate has refused a token. The name may
    /// have been cut.
    Stale(Stale),
    /// It has found a mark that is none.
    Corrupt,
    /// The trigger of a protected table was not given a token.
    Unpresented,
    /// The mark has to be raised in a transaction of its own first.
    RaiseFirst,
    /// Anything else.
    Other,
}

impl Refusal {
    /// What a SQLSTATE of our own says.
    pub(super) fn of_own(state: &str, text: &str) -> Refusal {
        match state {
            message::STALE => message::parse(text).map_or(Refusal::Other, Refusal::Stale),
            message::CORRUPT => Refusal::Corrupt,
            message::UNPRESENTED => Refusal::Unpresented,
            message::RAISE_FIRST => Refusal::RaiseFirst,
            _ => Refusal::Other,
        }
    }
}

/// One database: its statements, its locks, its error codes.
pub trait Backend: sqlx::Database<Connection: Migrate> {
    /// Opens a transaction that is going to write behind the fence.
    const BEGIN: &'static str;

    /// The same for a transaction that raises a mark and nothing else.
    const BEGIN_TO_RAISE: &'static str = Self::BEGIN;

    /// The same for a transaction that waits a second at most for each lock, where the
    /// database can be told so.
    const BEGIN_BOUNDED: &'static str = Self::BEGIN;

    /// The migrations, by version: description and SQL.
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)];

    /// Begins a transaction and admits in it, as one text of SQL, where that saves a round
    /// trip. Where it fails it leaves no transaction open. What the transaction reads is
    /// not older than its admission.
    fn begin_admitted(resource: &Resource, token: Token) -> Option<String>;

    /// Runs a statement that needs no values.
    fn execute<'a>(conn: &'a mut Self::Connection, sql: String) -> BoxFuture<'a, sqlx::Result<()>>;

    /// The triggers of a protected table.
    fn protect(protect: &Protect) -> Vec<String>;

    /// What has to be done to the table before.
    fn prepare_protect<'a>(
        _: &'a Protect,
        _: &'a mut Self::Connection,
    ) -> BoxFuture<'a, sqlx::Result<Vec<String>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Presents the token to the triggers of protected tables.
    fn present(conn: &mut Self::Connection, token: Token) -> BoxFuture<'_, sqlx::Result<()>>;

    /// Applies the migrations, and keeps every other migration out meanwhile. Dropped, it
    /// leaves no lock behind.
    fn migrate(pool: &Pool<Self>, migrator: Migrator) -> BoxFuture<'_, Result<(), MigrateError>>;

    /// Compares and raises. In a transaction, holds what it found until the end of it:
    /// after `Ok` no other token is admitted before.
    fn admit<'a>(
        conn: &'a mut Self::Connection,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), AdmitError>>;

    /// The rows whose names come after this one.
    fn list<'a>(
        conn: &'a mut Self::Connection,
        after: &'a [u8],
        limit: u32,
    ) -> BoxFuture<'a, sqlx::Result<Vec<Row>>>;

    /// The mark as the connection sees it, without a lock.
    fn mark<'a>(
        conn: &'a mut Self::Connection,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, AdmitError>>;
}

/// Reads what a query for a mark answered. The column is taken for nullable, and its
/// type for unsure: somebody may have altered the table by hand.
pub fn parse(
    resource: &Resource,
    answer: sqlx::Result<Option<Option<i64>>>,
) -> Result<Option<Token>, AdmitError> {
    match answer {
        Ok(None) => Ok(None),
        Ok(Some(None)) => Err(AdmitError::corrupt(resource, "it is NULL")),
        Ok(Some(Some(number))) => match Token::try_from(number) {
            Ok(token) => Ok(Some(token)),
            Err(error) => Err(AdmitError::corrupt(resource, format!("it is {number}: {error}"))),
        },
        Err(error @ sqlx::Error::ColumnDecode { .. }) => Err(AdmitError::corrupt(resource, error)),
        Err(error) => Err(error.into()),
    }
}

/// The name in hexadecimal digits: no quoting goes wrong with those.
#[allow(dead_code, reason = "SQLite begins without a round trip")]
pub fn hex(resource: &Resource) -> String {
    resource.as_str().bytes().map(|byte| format!("{byte:02x}")).collect()
}
