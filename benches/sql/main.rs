//! What the guards cost: each way against the same write without one, interleaved in the
//! same run, medians over the rounds: throughput, and processor time of the server. PostgreSQL, MariaDB,
//! SQLite with a WAL, commits on disk; eight connections.
//!
//! `cargo bench -p sql_bench --bench sql`; `FENCING_ROUNDS` sets the rounds (default 7),
//! `FENCING_WRITES` the writes of each connection in a round (default 50).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../cpu.rs"]
mod cpu;
#[path = "../rounds.rs"]
mod rounds;
mod table;
mod way;

use std::time::{Duration, Instant};

use cpu::Cpu;
use fencing::sql::{self, AdmitError};
use fencing::{Resource, Token};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;
use table::Round;
use way::{MYSQL, POSTGRES, SQLITE, Statements, Way};

const CONNECTIONS: usize = 8;
const TOKEN: u64 = 34;

const HOT_WORK: Duration = Duration::from_millis(5);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The same code on each database: a writer of one connection, and the rounds.
macro_rules! database {
    ($module:ident, $db:ty, $begin:literal) => {
        mod $module {
            use super::*;

            const BEGIN: &str = $begin;

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
                one: &sqlx::Pool<$db>,
                statements: &'static Statements,
                way: Way,
                path: &str,
                body: i64,
            ) -> Result<(), AdmitError> {
                let token = Token::new(TOKEN).unwrap();
                let own = Resource::new(path).unwrap();
                let hot = Resource::new("hot").unwrap();
                let plain = statements.update;
                let guarded = || {
                    let (update, condition) = statements.guarded;
                    sql::guarded::<$db>(update, condition).bind(body).bind(path.to_owned())
                };
                let pool = match way {
                    Way::PlainOfOne | Way::BeginOfOne => one,
                    _ => pool,
                };
                match way {
                    Way::Alone => update(pool, plain, path, body).await?,
                    Way::Row => {
                        let row = sqlx::query(statements.row).bind(body).bind(i64::from(token));
                        let row = row.bind(path.to_owned()).bind(i64::from(token));
                        assert_eq!(row.execute(pool).await?.rows_affected(), 1);
                    }
                    Way::Folded => {
                        let (tx, rows) = guarded().begin(pool, &own, token).await?;
                        assert_eq!(rows, 1);
                        tx.commit().await?;
                    }
                    _ => {
                        let mut tx = match way {
                            Way::Begin | Way::BeginOfOne => sql::begin(pool, &own, token).await?,
                            Way::HotBegin => sql::begin(pool, &hot, token).await?,
                            _ => pool.begin_with(BEGIN).await?,
                        };
                        if way == Way::Admit {
                            sql::admit(&mut tx, &own, token).await?;
                        } else if way == Way::HotUpsert {
                            let upsert = sqlx::query(statements.upsert).bind(i64::from(token));
                            upsert.execute(&mut *tx).await?;
                        }
                        update(&mut *tx, plain, path, body).await?;
                        if matches!(way, Way::HotBegin | Way::HotUpsert) {
                            tokio::time::sleep(HOT_WORK).await;
                        }
                        tx.commit().await?;
                    }
                }
                Ok(())
            }

            /// One round of one way, of all connections together.
            async fn round(
                pools: [&sqlx::Pool<$db>; 2],
                statements: &'static Statements,
                way: Way,
                writes: usize,
                cpu: &Cpu,
            ) -> Round {
                let (start, before) = (Instant::now(), cpu.so_far());
                let writers = (0..CONNECTIONS).map(|writer| {
                    let [pool, one] = pools.map(Clone::clone);
                    tokio::spawn(async move {
                        let path = format!("files/{writer}");
                        for body in 0..writes {
                            let body = body as i64;
                            // What another was in the way of is done again, in its time.
                            loop {
                                match write(&pool, &one, statements, way, &path, body).await {
                                    Err(error) if sql::is_retryable(&error) => {}
                                    result => break result.unwrap(),
                                }
                            }
                        }
                    })
                });
                for writer in writers.collect::<Vec<_>>() {
                    writer.await.unwrap();
                }
                let (took, used) = (start.elapsed(), cpu.so_far() - before);
                let count = (CONNECTIONS * writes) as f64;
                Round { rate: count / took.as_secs_f64(), cpu: used.as_secs_f64() * 1e6 / count }
            }

            pub async fn rounds(
                name: &str,
                pools: [&sqlx::Pool<$db>; 2],
                statements: &'static Statements,
                cpu: impl Fn() -> Cpu,
            ) {
                let (rounds, writes) = (number("FENCING_ROUNDS", 7), number("FENCING_WRITES", 50));
                let ways = statements.ways();
                for (way, ..) in &ways {
                    round(pools, statements, *way, 5, &cpu()).await;
                }
                let cpu = cpu();
                let mut found = vec![Vec::new(); ways.len()];
                for which in rounds::turns(rounds, ways.len()) {
                    let way = ways[which].0;
                    found[which].push(round(pools, statements, way, writes, &cpu).await);
                }
                table::print(name, &ways, &found);
            }
        }
    };
}

database!(on_postgres, sqlx::Postgres, "BEGIN");
database!(on_mysql, sqlx::MySql, "START TRANSACTION");
database!(on_sqlite, sqlx::Sqlite, "BEGIN IMMEDIATE");

async fn measure_postgres() {
    let server = PostgresServer::start();
    let options = PgPoolOptions::new().max_connections(CONNECTIONS as u32);
    let pool = options.connect_with(server.database().await).await.unwrap();
    on_postgres::prepare(&pool).await;
    let name = "PostgreSQL, synchronous_commit = on";
    on_postgres::rounds(name, [&pool, &pool], &POSTGRES, || Cpu::Of(server.processes())).await;
}

async fn measure_mariadb() {
    let server = MariadbServer::start();
    let options = MySqlPoolOptions::new().max_connections(CONNECTIONS as u32);
    let pool = options.connect_with(server.database().await).await.unwrap();
    on_mysql::prepare(&pool).await;
    let name = "MariaDB, innodb_flush_log_at_trx_commit = 1";
    on_mysql::rounds(name, [&pool, &pool], &MYSQL, || Cpu::Of(vec![server.pid()])).await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("{CONNECTIONS} connections, ratios to the unguarded write");
    measure_postgres().await;
    measure_mariadb().await;

    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("data.db"));
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let options = options.busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS as u32);
    let pool = pool.connect_with(options.clone()).await.unwrap();
    on_sqlite::prepare(&pool).await;
    let one = sql::single_writer(options);
    let name = "SQLite, WAL, synchronous = FULL (client and database are one process)";
    on_sqlite::rounds(name, [&pool, &one], &SQLITE, || Cpu::Own).await;
}
