//! What a lease costs beside an advisory lock, which gives no token, ends with its connection and is never on disk, and
//! beside the least that is on disk, a row that is put and deleted: one task, and 64 tasks with a resource each over
//! pools of two sizes.

use std::sync::Arc;
use std::time::Instant;

use fencing::Resource;
use fencing::lock::sql::SqlLock;
use sqlx::postgres::{PgPool, PgPoolOptions};
use support::postgres::PostgresServer;

use crate::rounds::{median, turns};

const TASKS: usize = 64;
const PAIRS: usize = 10;

#[derive(Clone)]
enum Contestant {
    Lease(Arc<SqlLock<sqlx::Postgres>>),
    Advisory(PgPool),
    Row(PgPool),
}

impl Contestant {
    async fn pair(&self, name: &str) {
        match self {
            Contestant::Lease(lock) => {
                let lease = lock.acquire(&Resource::new(name).unwrap()).await.unwrap();
                lease.release().await.unwrap();
            }
            Contestant::Advisory(pool) => {
                let mut conn = pool.acquire().await.unwrap();
                for call in ["SELECT pg_advisory_lock(hashtext($1))", "SELECT pg_advisory_unlock(hashtext($1))"] {
                    sqlx::query(call).bind(name).execute(&mut *conn).await.unwrap();
                }
            }
            Contestant::Row(pool) => {
                for call in ["INSERT INTO bare VALUES ($1)", "DELETE FROM bare WHERE name = $1"] {
                    sqlx::query(call).bind(name).execute(pool).await.unwrap();
                }
            }
        }
    }
}

pub async fn measure(rounds: usize) {
    println!("\nleases on PostgreSQL, synchronous_commit = on: p50 of one task in us, pairs/s of {TASKS} tasks");
    let server = PostgresServer::with(&[]);
    let database = server.database().await;
    for size in [16, 64] {
        let pool = PgPoolOptions::new().max_connections(size);
        let pool = pool.connect_with(database.clone()).await.unwrap();
        fencing::sql::migrate(&pool).await.unwrap();
        sqlx::query("CREATE TABLE IF NOT EXISTS bare (name text PRIMARY KEY)").execute(&pool).await.unwrap();
        let lock = Arc::new(SqlLock::new(pool.clone()));
        let contestants = [Contestant::Lease(lock), Contestant::Advisory(pool.clone()), Contestant::Row(pool)];
        let (mut times, mut rates) = ([(); 3].map(|()| vec![]), [(); 3].map(|()| vec![]));
        for which in turns(rounds, 3) {
            for _ in 0..50 {
                let start = Instant::now();
                contestants[which].pair("invoice/42").await;
                times[which].push(start.elapsed().as_secs_f64() * 1e6);
            }
            let start = Instant::now();
            let tasks = (0..TASKS).map(|task| {
                let contestant = contestants[which].clone();
                tokio::spawn(async move {
                    for _ in 0..PAIRS {
                        contestant.pair(&format!("task/{task}")).await;
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            rates[which].push((TASKS * PAIRS) as f64 / start.elapsed().as_secs_f64());
        }
        for (which, name) in ["SqlLock", "advisory lock", "row"].into_iter().enumerate() {
            let [p50, rate] = [&times, &rates].map(|of| median(of[which].iter().copied()));
            println!("{size:3} connections  {name:14} {p50:8.0} {rate:8.0}");
        }
    }
}
