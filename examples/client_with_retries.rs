//! A client that retries only when that helps.
//!
//! `client_with_retries counter.db`: adds one to a counter, concurrently with others.

use std::time::Duration;

use anyhow::Context;
use fencing::lock::{AcquireError, Lease, sql::SqlLock};
use fencing::sql::{self, AdmitError, Retry};
use fencing::{Resource, Token};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqlitePool};

/// Busy is waited for by `acquire` itself, for 30 s. An outage is waited for here, a few times.
async fn acquire(lock: &SqlLock<Sqlite>, what: &Resource) -> Result<Lease, AcquireError> {
    for pause in [1, 2, 4] {
        match lock.acquire(what).await {
            Err(AcquireError::Unavailable { cause, .. }) => eprintln!("{cause}"),
            result => return result,
        }
        tokio::time::sleep(Duration::from_secs(pause)).await;
    }
    lock.acquire(what).await
}

async fn add(pool: &SqlitePool, what: &Resource, token: Token) -> Result<i64, AdmitError> {
    let mut tx = sql::begin(pool, what, token).await?;
    let add = "UPDATE counter SET value = value + 1 RETURNING value";
    let value = sqlx::query_scalar(add).fetch_one(&mut *tx).await?;
    tx.commit().await?;
    Ok(value)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("usage: client_with_retries FILE")?;
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await?;
    sql::migrate(&pool).await?;
    let create = "CREATE TABLE IF NOT EXISTS counter (one INTEGER PRIMARY KEY, value INTEGER)";
    sqlx::query(create).execute(&pool).await?;
    sqlx::query("INSERT OR IGNORE INTO counter VALUES (1, 0)").execute(&pool).await?;
    let (lock, counter) = (SqlLock::new(pool.clone()), Resource::new("counter")?);
    loop {
        let lease = acquire(&lock, &counter).await?;
        // Another transaction in the way: the same lease tries again.
        let added = sql::retry(Retry::new(), || add(&pool, &counter, lease.token())).await;
        if let Err(doubt) = lease.release().await {
            eprintln!("{doubt}");
        }
        match added {
            // The lease was lost meanwhile, and nothing was written: begin again with a new one.
            Err(AdmitError::Stale(stale)) => eprintln!("{stale}"),
            result => {
                println!("{}", result?);
                return Ok(());
            }
        }
    }
}
