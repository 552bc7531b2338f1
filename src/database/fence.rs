use fencing_protocol::{Resource, Token};

use sqlx::Pool;
use sqlx::error::BoxDynError;
use sqlx::migrate::{Migrate, MigrateError, Migrator};

use super::{Dialect, TextRow};

/// Migrations by version: description and SQL.
pub type Migrations = &'static [(i64, &'static str, &'static str)];

/// The statements and locks of the fence in one database.
pub trait FenceStatements: sqlx::Database<Connection: Migrate, Arguments: Clone> {
    const DIALECT: Dialect;

    /// The quote of a name.
    const QUOTE: char = '"';

    /// Opens a transaction that is going to write behind the fence.
    const BEGIN: &'static str;

    /// Opens one that waits a second at most for each lock, where the database can bound that.
    const BEGIN_BOUNDED: &'static str = Self::BEGIN;

    /// Opens one that raises a mark, and does nothing else.
    const BEGIN_RAISING: &'static str = Self::BEGIN;

    /// Opens one for a token whose mark is raised already, if the raise must commit separately first. It reads
    /// nothing older than its admission. If it fails, none is open. Where what is presented ends with the
    /// transaction, it presents the resource and the token.
    const BEGIN_ADMITTED: &'static str = Self::BEGIN;

    /// Compares the token with the mark and raises it, or fails. After that no newer token is admitted until the
    /// transaction ends.
    const ADMIT: &'static str;

    /// Admits right after `BEGIN_ADMITTED`, unless that has admitted.
    const ADMIT_FIRST: Option<&'static str> = Some(Self::ADMIT);

    /// Admits after `BEGIN_BOUNDED`, and waits a second at most for each lock, where the database can bound that.
    const ADMIT_BOUNDED: &'static str = Self::ADMIT;

    /// Admits after a savepoint, for shadow mode: it waits as briefly for other transactions as the database can
    /// bound that.
    const ADMIT_IN_SHADOW: &'static str = Self::ADMIT;

    /// Prepares a session that creates functions or triggers.
    const SESSION_FOR_DDL: Option<&'static str> = None;

    /// Two statements that detect whether a transaction ended before its commit, because COMMIT may not report
    /// that. The first, if one is needed, runs right after the transaction begins. The second runs right before
    /// the commit, and fails if the transaction has ended.
    const WATCH: (Option<&'static str>, Option<&'static str>) = (None, None);

    const MIGRATIONS: Migrations;

    /// The SQL that removes the tables and functions. It fails while a table is protected.
    const REMOVAL: &'static str;

    /// Reads the schema where migrations are applied, with a dot after it.
    const HOME: &'static str;

    /// Reads the functions and procedures (`routine name`) and triggers (`trigger name`) in a schema, or in
    /// the session's; the text of each, if it can be compared, with the word before it, for a short text may be a part
    /// of others; and its fault. A `*` for the name means that this user may not see all of them.
    const OBJECTS: &'static str;

    /// Reads which tables of the fence in a schema, or in the session's, have no transactions or no log, which
    /// the fence needs. Each row is a sentence.
    const UNFIT: Option<&'static str> = None;

    /// Reads the mark as the connection sees it, without a lock. Its one parameter is the resource.
    const HIGHEST: &'static str;

    /// Reads the mark if it is the newest one. `None` if the database can't know that: a proxy may send reads to
    /// a replica, which is behind.
    const NEWEST: Option<&'static str>;

    /// Reads at most `{limit}` marks of resources after `{after}`. Columns: the name in hexadecimal digits, and the
    /// token, which may be NULL or no token, where the table was altered by hand.
    const LIST: &'static str;

    /// Lowers the mark of `{resource}` to `{to}` if it is `{from}`, and records that in the audit.
    const LOWER: &'static str;

    /// Selects the marks that may be pruned: at most `{highest}`, last raised at least `{seconds}` ago, without a
    /// current lease. Columns: their number, the floor, and the name (in hexadecimal digits) and token of the highest.
    const PRUNABLE: &'static str;

    /// Raises the floor to `{to}`, in a separate transaction. If other transactions block it, it fails as a
    /// conflict after a second, on MySQL at once unless it `{waits}`. Current leases without a mark get one first.
    const RAISE_FLOOR: &'static str;

    /// Deletes at most `{limit}` marks that may be pruned and are not above the floor, of resources after the
    /// name `{after}`. Columns: the number of marks, and the last name. Names are in hexadecimal digits.
    const PRUNE: &'static str;

    /// The first parameter of a statement.
    const PARAMETER: &'static str;

    /// Returns a condition that holds where the mark is this token, and locks it until the
    /// transaction ends as [`admit`](FenceStatements::admit) does. Adds its two values after the others.
    /// Returns `None` for a database where the statement around it may read before it has the lock.
    fn held(
        _: &mut Self::Arguments,
        _: &Resource,
        _: Token,
    ) -> Result<Option<String>, BoxDynError> {
        Ok(None)
    }

    /// Runs a statement with these values. Returns how many rows it wrote.
    fn run(
        conn: &mut Self::Connection,
        sql: String,
        values: Self::Arguments,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn execute(
        conn: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Reads all rows of a statement as texts.
    fn texts(
        conn: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = sqlx::Result<Vec<TextRow>>> + Send;

    /// Reads the first column of a statement, where it is not NULL.
    fn column(
        conn: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = sqlx::Result<Vec<String>>> + Send {
        async {
            let rows = Self::texts(conn, sql).await?;
            Ok(rows.iter().filter_map(|row| row.owned(0)).collect())
        }
    }

    fn first_text(
        conn: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = sqlx::Result<Option<String>>> + Send {
        async { Ok(Self::column(conn, sql).await?.into_iter().next()) }
    }

    /// Applies the migrations, and keeps other processes from migrating meanwhile; false if
    /// another one migrates. Dropped, it leaves no lock behind.
    fn migrate(
        pool: &Pool<Self>,
        migrator: Migrator,
    ) -> impl Future<Output = Result<bool, MigrateError>> + Send;

    /// Returns why the fence does not hold on this server, if other servers of its cluster
    /// take writes as well and nothing makes their commits conflict.
    fn unguarded(
        _: &Pool<Self>,
    ) -> impl Future<Output = sqlx::Result<Option<&'static str>>> + Send {
        async { Ok(None) }
    }

    /// Admits by one of the statements for that. Returns the mark if it refuses the token, and fails where the
    /// statement does.
    fn admit(
        conn: &mut Self::Connection,
        admit: &'static str,
        resource: &Resource,
        token: Token,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;

    /// Presents this to the triggers of protected tables: the text of a sequencer, or a bare token. `None` where the
    /// write itself presents.
    fn present(presented: &str) -> Option<String>;
}
