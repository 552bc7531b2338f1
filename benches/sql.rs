//! What the guards cost: each way against the same write without one, interleaved in the
//! same run, medians over the rounds. PostgreSQL with commits on disk and without, MariaDB,
//! SQLite with a WAL; eight connections.
//!
//! `cargo bench --bench sql`; `FENCING_ROUNDS` sets the rounds (default 7),
//! `FENCING_WRITES` the writes of each connection in a round (default 50).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::{Duration, Instant};

use fencing::sql::{self, AdmitError};
use fencing::{Resource, Token};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

const CONNECTIONS: usize = 8;
const TOKEN: u64 = 34;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Alone,
    Row,
    OneStatement,
    Plain,
    Begin,
    Admit,
    HotUpsert,
    HotBegin,
}

/// The way and the one that it is measured against.
const WAYS: &[(Way, Way, &str)] = &[
    (Way::Alone, Way::Alone, "one statement, unguarded"),
    (Way::Row, Way::Alone, "  row predicate"),
    (Way::OneStatement, Way::Alone, "  mark and write in one statement"),
    (Way::Plain, Way::Plain, "transaction, unguarded"),
    (Way::Begin, Way::Plain, "  sql::begin"),
    (Way::Admit, Way::Plain, "  sql::admit in it"),
    (Way::HotUpsert, Way::HotUpsert, "hot, 5 ms of work, exclusive upsert"),
    (Way::HotBegin, Way::HotUpsert, "  hot, 5 ms of work, sql::begin"),
];

const HOT_WORK: Duration = Duration::from_millis(5);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The statements of one database.
struct Statements {
    update: &'static str,
    row: &'static str,
    one: Option<&'static str>,
    upsert: &'static str,
}

/// The same code on each database: a writer of one connection, and the rounds.
macro_rules! database {
    ($module:ident, $db:ty) => {
        mod $module {
            use super::*;

            pub async fn prepare(pool: &sqlx::Pool<$db>) {
                sql::migrate(pool).await.unwrap();
                let create = "CREATE TABLE files (path VARCHAR(255) PRIMARY KEY,
                    body BIGINT NOT NULL, fence_token BIGINT NOT NULL DEFAULT 0)";
                sqlx::query(create).execute(pool).await.unwrap();
                for writer in 0..CONNECTIONS {
                    let insert = format!("INSERT INTO files VALUES ('files/{writer}', 0, 0)");
                    sqlx::query(sqlx::AssertSqlSafe(insert)).execute(pool).await.unwrap();
                }
            }

            async fn update(
                executor: impl sqlx::Executor<'_, Database = $db>,
                statement: &'static str,
                path: &str,
                body: i64,
            ) -> Result<(), AdmitError> {
                let update = sqlx::query(statement).bind(body).bind(path.to_owned());
                Ok(update.execute(executor).await.map(drop)?)
            }

            async fn write(
                pool: &sqlx::Pool<$db>,
                statements: &'static Statements,
                way: Way,
                path: &str,
                body: i64,
            ) -> Result<(), AdmitError> {
                let token = Token::new(TOKEN).unwrap();
                let own = Resource::new(path).unwrap();
                let hot = Resource::new("hot").unwrap();
                let plain = statements.update;
                match way {
                    Way::Alone => update(pool, plain, path, body).await?,
                    Way::Row => {
                        let row = sqlx::query(statements.row).bind(body).bind(i64::from(token));
                        let row = row.bind(path.to_owned()).bind(i64::from(token));
                        assert_eq!(row.execute(pool).await?.rows_affected(), 1);
                    }
                    Way::OneStatement => {
                        let one = sqlx::query(statements.one.unwrap()).bind(body);
                        let one = one.bind(path.to_owned()).bind(i64::from(token));
                        assert_eq!(one.execute(pool).await?.rows_affected(), 1);
                    }
                    Way::Plain => {
                        let mut tx = pool.begin().await?;
                        update(&mut *tx, plain, path, body).await?;
                        tx.commit().await?;
                    }
                    Way::Begin => {
                        let mut tx = sql::begin(pool, &own, token).await?;
                        update(&mut *tx, plain, path, body).await?;
                        tx.commit().await?;
                    }
                    Way::Admit => {
                        let mut tx = pool.begin().await?;
                        sql::admit(&mut tx, &own, token).await?;
                        update(&mut *tx, plain, path, body).await?;
                        tx.commit().await?;
                    }
                    Way::HotUpsert => {
                        let mut tx = pool.begin().await?;
                        let upsert = sqlx::query(statements.upsert).bind(i64::from(token));
                        upsert.execute(&mut *tx).await?;
                        update(&mut *tx, plain, path, body).await?;
                        tokio::time::sleep(HOT_WORK).await;
                        tx.commit().await?;
                    }
                    Way::HotBegin => {
                        let mut tx = sql::begin(pool, &hot, token).await?;
                        update(&mut *tx, plain, path, body).await?;
                        tokio::time::sleep(HOT_WORK).await;
                        tx.commit().await?;
                    }
                }
                Ok(())
            }

            /// Writes per second of all connections together.
            async fn rate(
                pool: &sqlx::Pool<$db>,
                statements: &'static Statements,
                way: Way,
                writes: usize,
            ) -> f64 {
                let start = Instant::now();
                let writers = (0..CONNECTIONS).map(|writer| {
                    let pool = pool.clone();
                    tokio::spawn(async move {
                        let path = format!("files/{writer}");
                        for body in 0..writes {
                            let body = body as i64;
                            // What another was in the way of is done again, in its time.
                            loop {
                                match write(&pool, statements, way, &path, body).await {
                                    Err(error) if error.is_retryable() => {}
                                    result => break result.unwrap(),
                                }
                            }
                        }
                    })
                });
                for writer in writers.collect::<Vec<_>>() {
                    writer.await.unwrap();
                }
                (CONNECTIONS * writes) as f64 / start.elapsed().as_secs_f64()
            }

            pub async fn rounds(
                name: &str,
                pool: &sqlx::Pool<$db>,
                statements: &'static Statements,
                hot: bool,
            ) {
                let (rounds, writes) = (number("FENCING_ROUNDS", 7), number("FENCING_WRITES", 50));
                let there = |way: Way| match way {
                    Way::OneStatement => statements.one.is_some(),
                    Way::HotUpsert | Way::HotBegin => hot,
                    _ => true,
                };
                let ways: Vec<_> = WAYS.iter().filter(|way| there(way.0)).collect();
                for (way, ..) in &ways {
                    rate(pool, statements, *way, 5).await;
                }
                let mut rates = vec![Vec::new(); ways.len()];
                for round in 0..rounds {
                    // Each goes first in its turn.
                    for turn in 0..ways.len() {
                        let which = (round + turn) % ways.len();
                        rates[which].push(rate(pool, statements, ways[which].0, writes).await);
                    }
                }
                report(name, &ways, &rates);
            }
        }
    };
}

database!(on_postgres, sqlx::Postgres);
database!(on_mysql, sqlx::MySql);
database!(on_sqlite, sqlx::Sqlite);

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The ratio is the median of the rounds' own ratios: whatever slowed a round down slowed
/// both.
fn report(name: &str, ways: &[&(Way, Way, &str)], rates: &[Vec<f64>]) {
    println!("\n{name}");
    println!("{:<40}{:>12}{:>10}", "", "writes/s", "ratio");
    for (&&(_, against, words), of) in ways.iter().zip(rates) {
        let base = ways.iter().position(|way| way.0 == against).unwrap();
        let ratios = of.iter().zip(&rates[base]).map(|(rate, base)| rate / base).collect();
        println!("{words:<40}{:>12.0}{:>10.2}", median(of.clone()), median(ratios));
    }
}

static POSTGRES: Statements = Statements {
    update: "UPDATE files SET body = $1 WHERE path = $2",
    row: "UPDATE files SET body = $1, fence_token = $2 WHERE path = $3 AND fence_token <= $4",
    one: Some(
        "WITH admitted AS (
            INSERT INTO fencing_marks AS mark (resource, token) VALUES ($2, $3)
            ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token
            WHERE mark.token <= EXCLUDED.token RETURNING 1)
        UPDATE files SET body = $1 WHERE path = $2 AND EXISTS (SELECT FROM admitted)",
    ),
    upsert: "INSERT INTO fencing_marks AS mark (resource, token) VALUES ('hot', $1)
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token
        WHERE mark.token <= EXCLUDED.token",
};

static MYSQL: Statements = Statements {
    update: "UPDATE files SET body = ? WHERE path = ?",
    row: "UPDATE files SET body = ?, fence_token = ? WHERE path = ? AND fence_token <= ?",
    one: None,
    upsert: "INSERT INTO fencing_marks (resource, token) VALUES ('hot', ?)
        ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))",
};

static SQLITE: Statements = Statements {
    update: "UPDATE files SET body = ?1 WHERE path = ?2",
    row: "UPDATE files SET body = ?1, fence_token = ?2 WHERE path = ?3 AND fence_token <= ?4",
    one: None,
    upsert: "INSERT INTO fencing_marks (resource, token) VALUES ('hot', ?1)
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token",
};

async fn on_postgres_with(commit: &str) {
    let server =
        support::postgres::PostgresServer::with(&[&format!("synchronous_commit={commit}")]);
    let options = PgPoolOptions::new().max_connections(CONNECTIONS as u32);
    let pool = options.connect_with(server.database().await).await.unwrap();
    on_postgres::prepare(&pool).await;
    let name = format!("PostgreSQL, synchronous_commit = {commit}");
    on_postgres::rounds(&name, &pool, &POSTGRES, true).await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("{CONNECTIONS} connections, ratios to the unguarded write");
    on_postgres_with("on").await;
    on_postgres_with("off").await;

    let server = support::mariadb::MariadbServer::start();
    let options = MySqlPoolOptions::new().max_connections(CONNECTIONS as u32);
    let pool = options.connect_with(server.database().await).await.unwrap();
    on_mysql::prepare(&pool).await;
    on_mysql::rounds("MariaDB, innodb_flush_log_at_trx_commit = 1", &pool, &MYSQL, true).await;

    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("data.db"));
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS as u32);
    let pool = pool.connect_with(options.busy_timeout(Duration::from_secs(60))).await.unwrap();
    on_sqlite::prepare(&pool).await;
    // One writer at a time, whatever the tokens: there is nothing hot to tell apart.
    on_sqlite::rounds("SQLite, WAL, synchronous = FULL", &pool, &SQLITE, false).await;
}
