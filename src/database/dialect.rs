use std::path::PathBuf;

use sqlx::Connection;
use sqlx::migrate::Migrate;

use super::TextRow;

/// How to write texts into the statements of one database, and how to run them.
pub trait Dialect: sqlx::Database<Connection: Migrate, Arguments: Clone> {
    /// The quote of a name.
    const QUOTE: char = '"';

    /// The first parameter of a statement.
    const PARAMETER: &'static str;

    /// Whether an interrupted procedure leaves its transaction open, and settings and table locks stay: then the
    /// session is not used again.
    const KEEPS_SESSION_STATE: bool = false;

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

    /// Reads all rows of a statement as texts.
    fn texts(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<Vec<TextRow>>> + Send;

    fn execute(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<()>> + Send {
        async { Self::texts(conn, sql).await.map(drop) }
    }

    /// Reads the first column of a statement, where it is not NULL.
    fn column(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<Vec<String>>> + Send {
        async {
            let rows = Self::texts(conn, sql).await?;
            Ok(rows.iter().filter_map(|row| row.owned(0)).collect())
        }
    }

    fn first(conn: &mut Self::Connection, sql: String) -> impl Future<Output = sqlx::Result<Option<String>>> + Send {
        async { Ok(Self::column(conn, sql).await?.into_iter().next()) }
    }
}

/// Names a server, for [`Dialect::name`].
#[allow(dead_code, reason = "SQLite has no server")]
pub(super) fn server(socket: Option<&PathBuf>, host: &str, port: u16) -> String {
    socket.map_or_else(|| format!("{host}:{port}"), |socket| socket.display().to_string())
}

/// Writes the methods of [`Dialect`] that only pass a statement on. Without a macro each user of a database would have
/// to repeat the bounds of its driver.
macro_rules! plain_statements {
    () => {
        async fn run(conn: &mut Self::Connection, sql: String, values: Self::Arguments) -> sqlx::Result<u64> {
            let run = sqlx::query_with::<Self, _>(sqlx::AssertSqlSafe(sql), values);
            Ok(run.execute(conn).await?.rows_affected())
        }

        async fn texts(conn: &mut Self::Connection, sql: String) -> sqlx::Result<Vec<$crate::database::TextRow>> {
            let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_all(conn).await?;
            rows.iter().map($crate::database::TextRow::read).collect()
        }
    };
}
pub(super) use plain_statements;
