use fencing_protocol::{Resource, Token};

use sqlx::Pool;
use sqlx::error::BoxDynError;
use sqlx::migrate::{Migrate, MigrateError, Migrator};

/// Migrations by version: description and SQL.
pub type Migrations = &'static [(i64, &'static str, &'static str)];

/// The name of a resource and its mark, as they stand in the table.
pub type Row = (Vec<u8>, Option<i64>);

/// A row of texts.
pub type Texts = Vec<Option<String>>;

/// What may be pruned.
pub struct Prunable {
    pub marks: i64,
    pub floor: i64,
    /// The highest of them: the name in hexadecimal digits, and the token.
    pub highest: Option<(String, i64)>,
}

/// What came of an admission.
pub enum AdmitAnswer {
    /// The token is admitted until the transaction ends.
    Admitted,
    /// It is not. The mark is this, as [`FenceStatements::mark`] reads it.
    Refused(Option<Option<i64>>),
}

/// The SQL that opens a transaction which is admitted.
#[derive(Clone)]
pub struct BeginAdmitted {
    /// Begins the transaction. Where it fails, none is open.
    pub begin: String,
    /// Admits in it, if the first text has not done that already.
    pub admit: Option<String>,
}

/// What a database does for the fence: its statements and its locks.
pub trait FenceStatements: sqlx::Database<Connection: Migrate, Arguments: Clone> {
    /// Opens a transaction that is going to write behind the fence.
    const BEGIN: &'static str;

    /// Opens one that waits a second at most for each lock, where the database can be told
    /// so.
    const BEGIN_BOUNDED: &'static str = Self::BEGIN;

    /// Two statements that find out whether a transaction ended before its commit, because COMMIT may not say
    /// so. The first, if one is needed, runs right after the transaction begins. The second runs right before
    /// the commit, and fails if the transaction that was begun is over.
    const WATCH: (Option<&'static str>, Option<&'static str>) = (None, None);

    /// What creates the tables and functions.
    const MIGRATIONS: Migrations;

    /// The SQL that removes the tables and functions. It fails while a table is protected.
    const REMOVAL: &'static str;

    /// Reads which functions, procedures (`routine name`) and triggers (`trigger name`) there are in a schema, or in
    /// the session's; the text of each, if it is to be compared; and what is wrong with it. A `*` for the name
    /// means that this user may not see all of them.
    const PARTS: &'static str;

    /// Reads which tables of the fence in a schema, or in the session's, lack what the fence needs:
    /// transactions, or a log. Each row is a sentence that says so.
    const UNFIT: Option<&'static str> = None;

    /// Returns the SQL that begins a transaction and admits in it a token whose mark is raised already, where the
    /// raise must commit by itself first. What the transaction reads is not older than its admission. Where what
    /// is presented ends with the transaction, it presents the two.
    fn begin_admitted(_: &Resource, _: Token) -> Option<BeginAdmitted> {
        None
    }

    /// Returns the SQL that begins a transaction which raises the mark, and does nothing else. Where there is
    /// none, any transaction does.
    fn begin_raising(_: &Resource, _: Token) -> Option<BeginAdmitted> {
        None
    }

    /// What a parameter of a statement begins with.
    const PARAMETER: char = '?';

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

    /// Runs a statement that needs no values.
    fn execute(
        conn: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Presents the token to the triggers of protected tables, for rows of this resource or, if
    /// there is none, of every one.
    fn present(
        conn: &mut Self::Connection,
        token: Token,
        resource: Option<&Resource>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Reads rows whose columns are all texts or NULL, as those of a catalogue.
    fn texts(
        conn: &mut Self::Connection,
        sql: String,
        values: Vec<Option<String>>,
    ) -> impl Future<Output = sqlx::Result<Vec<Texts>>> + Send;

    /// Applies the migrations, and keeps every other migration out meanwhile; false if
    /// another one was at work. Dropped, it leaves no lock behind.
    fn migrate(
        pool: &Pool<Self>,
        migrator: Migrator,
    ) -> impl Future<Output = Result<bool, MigrateError>> + Send;

    /// Returns why the fence does not hold on this server, if that is so: others of its cluster
    /// take writes as well, and nothing makes their commits conflict.
    fn unguarded(
        _: &Pool<Self>,
    ) -> impl Future<Output = sqlx::Result<Option<&'static str>>> + Send {
        async { Ok(None) }
    }

    /// Compares and raises. In a transaction, holds what it found until the end of it:
    /// after `Admitted` no other token is admitted before.
    fn admit(
        conn: &mut Self::Connection,
        resource: &Resource,
        token: Token,
    ) -> impl Future<Output = sqlx::Result<AdmitAnswer>> + Send;

    /// Lowers the mark if it is `from`, and writes that down.
    fn lower(
        conn: &mut Self::Connection,
        resource: &Resource,
        from: Token,
        to: Token,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Looks which marks may be pruned: those up to `highest` that were raised so many seconds ago, but for
    /// those whose lease lasts.
    fn prunable(
        conn: &mut Self::Connection,
        seconds: i64,
        highest: Token,
    ) -> impl Future<Output = sqlx::Result<Prunable>> + Send;

    /// Raises the floor, in a transaction of its own. It fails as a conflict where others are in the
    /// way, at once or after a second. Leases that last, and have no mark yet, get it before.
    fn raise_floor(
        conn: &mut Self::Connection,
        to: Token,
        waits: bool,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Deletes marks that may be pruned and are not above the floor: so many at most, of those whose
    /// names come after this one. Returns how many, and the last name. Names are in hexadecimal digits.
    fn prune(
        conn: &mut Self::Connection,
        seconds: i64,
        after: String,
        limit: u32,
    ) -> impl Future<Output = sqlx::Result<(i64, Option<String>)>> + Send;

    /// Reads the rows whose names come after this one.
    fn list(
        conn: &mut Self::Connection,
        after: &[u8],
        limit: u32,
    ) -> impl Future<Output = sqlx::Result<Vec<Row>>> + Send;

    /// Reads the mark as the connection sees it, without a lock. It may be NULL: somebody
    /// may have altered the table by hand.
    fn mark(
        conn: &mut Self::Connection,
        resource: &Resource,
    ) -> impl Future<Output = sqlx::Result<Option<Option<i64>>>> + Send;

    /// Reads the mark like [`mark`](FenceStatements::mark), or `None` unless it is surely the
    /// newest one: a proxy may send reads to a replica, which is behind.
    fn newest_mark(
        conn: &mut Self::Connection,
        resource: &Resource,
    ) -> impl Future<Output = sqlx::Result<Option<Option<i64>>>> + Send {
        Self::mark(conn, resource)
    }
}
