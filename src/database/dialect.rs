use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::error::BoxDynError;
use sqlx::migrate::Migrate;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, ColumnIndex, Connection, Decode, Pool, Row, SqlSafeStr, Transaction};

use crate::background::{Unfinished, to_the_end};

/// How to write texts into the statements of one database, and how to run them.
pub trait Dialect: sqlx::Database<Connection: Migrate, Arguments: Clone> {
    const QUOTE: char = '"';

    /// The first parameter of a statement.
    const PARAMETER: &'static str;

    /// Whether an interrupted procedure keeps transaction, settings and table locks: its session is not reused then.
    const KEEPS_SESSION_STATE: bool = false;

    /// Whether there is a server that may hang, so that a connection whose statement is dropped must be closed.
    const CAN_HANG: bool = true;

    /// Returns the name of the database that these options lead to, without user and password.
    fn name(options: &<Self::Connection as Connection>::Options) -> String;

    /// Writes a text as an expression that needs no quoting, whatever the session's settings are.
    fn literal(text: impl AsRef<[u8]>) -> String;

    /// Writes a name, or NULL, for a query of the catalogue.
    fn catalogue(name: Option<&str>) -> String {
        name.map_or("NULL".into(), Self::literal)
    }

    /// Runs a statement with these values. Returns how many rows it wrote.
    fn run(
        conn: &mut Self::Connection,
        sql: String,
        values: Self::Arguments,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Adds two values to those of a statement.
    fn add_values(values: &mut Self::Arguments, text: &str, number: i64) -> Result<(), BoxDynError>;

    fn texts(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<Vec<TextRow>>> + Send;

    fn execute(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<()>> + Send {
        async { Self::texts(conn, sql).await.map(drop) }
    }

    /// Reads the first column of a statement, where it is not NULL.
    fn column(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<Vec<String>>> + Send {
        async { Ok(Self::texts(conn, sql).await?.iter().filter_map(|row| row.owned(0)).collect()) }
    }

    fn first(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<Option<String>>> + Send {
        async { Ok(Self::column(conn, sql).await?.into_iter().next()) }
    }
}

#[allow(dead_code, reason = "unused with SQLite alone")]
pub(super) fn server(socket: Option<&PathBuf>, host: &str, port: u16) -> String {
    socket.map_or_else(|| format!("{host}:{port}"), |socket| socket.display().to_string())
}

/// Writes the methods of [`Dialect`] that only pass a statement or its values on. Without a macro each user of a
/// database would have to repeat the bounds of its driver.
macro_rules! plain_statements {
    () => {
        async fn run(conn: &mut Self::Connection, sql: String, values: Self::Arguments) -> sqlx::Result<u64> {
            Ok(sqlx::query_with::<Self, _>(sqlx::AssertSqlSafe(sql), values).execute(conn).await?.rows_affected())
        }

        fn add_values(values: &mut Self::Arguments, text: &str, number: i64) -> Result<(), sqlx::error::BoxDynError> {
            sqlx::Arguments::add(values, text.to_owned())?;
            sqlx::Arguments::add(values, number)
        }

        async fn texts(conn: &mut Self::Connection, sql: String) -> sqlx::Result<Vec<$crate::database::TextRow>> {
            let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_all(conn).await?;
            rows.iter().map($crate::database::TextRow::read).collect()
        }
    };
}
pub(super) use plain_statements;

#[derive(Debug, Default)]
pub struct TextRow(Vec<Option<String>>);

impl TextRow {
    pub(super) fn read<'r, R: Row>(row: &'r R) -> sqlx::Result<TextRow>
    where
        usize: ColumnIndex<R>,
        Option<String>: Decode<'r, R::Database>,
    {
        Ok(TextRow((0..row.len()).map(|at| row.try_get_unchecked(at)).collect::<Result<_, _>>()?))
    }

    /// Returns nothing where the column is NULL.
    pub fn text(&self, column: usize) -> Option<&str> {
        self.0.get(column)?.as_deref()
    }

    pub fn owned(&self, column: usize) -> Option<String> {
        self.text(column).map(str::to_owned)
    }

    pub fn number<T: FromStr>(&self, column: usize) -> Option<T> {
        self.text(column)?.parse().ok()
    }

    pub fn is_true(&self, column: usize) -> bool {
        matches!(self.text(column), Some("t" | "1"))
    }

    /// Reads hexadecimal digits.
    pub fn bytes(&self, column: usize) -> Option<Vec<u8>> {
        hex::decode(self.text(column)?).ok()
    }
}

/// Puts values into the places of a statement, such as `{token}`. A text among them is a literal: see [`Dialect::literal`].
pub fn fill(sql: &str, values: &[(&str, &(dyn Display + Sync))]) -> String {
    values.iter().fold(sql.to_owned(), |sql, (place, value)| sql.replace(place, &value.to_string()))
}

/// Quotes a name or a text, and doubles the marks within.
pub fn quote(text: &str, mark: char) -> String {
    let doubled = text.replace(mark, &format!("{mark}{mark}"));
    format!("{mark}{doubled}{mark}")
}

/// Reads what [`quote`] has written at the beginning of a text: it, and the rest of the text.
pub fn unquote(text: &str, mark: char) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix(mark)?;
    let mut read = String::new();
    loop {
        let (part, after) = rest.split_once(mark)?;
        read.push_str(part);
        let Some(doubled) = after.strip_prefix(mark) else { return Some((read, after)) };
        read.push(mark);
        rest = doubled;
    }
}

/// Opens a transaction by this statement. Where that fails it must leave none open. If this is dropped meanwhile, it
/// continues in the background and is rolled back. The driver would give the connection back with the transaction open:
/// its locks would stay, and the next writes on it would not be committed.
pub async fn open_transaction<DB: Dialect>(
    conn: PoolConnection<DB>,
    statement: String,
) -> sqlx::Result<Transaction<'static, DB>> {
    // `Pool::begin_with` calls this undocumented function, but would also wait for a connection in the background.
    let opening = Transaction::begin(conn, Some(AssertSqlSafe(statement).into_sql_str()));
    let undo = |opening: Unfinished<sqlx::Result<Transaction<'static, DB>>>| async {
        if let Ok(Ok(tx)) = opening.await {
            let _ = tx.rollback().await;
        }
    };
    to_the_end(opening, undo).await
}

/// Takes a connection for procedures and settings. It is closed afterwards where they would stay in its session.
pub async fn procedure_connection<DB: Dialect>(pool: &Pool<DB>) -> sqlx::Result<PoolConnection<DB>> {
    let mut conn = pool.acquire().await?;
    if DB::KEEPS_SESSION_STATE {
        conn.close_on_drop();
    }
    Ok(conn)
}
