//! A cron job on many machines: one of them does the work, once a day, even if it is started twice.
//!
//! `0 3 * * * cron_job /var/lib/reports.db`. It exits with 75 if another machine is at work.

use std::process::ExitCode;

use anyhow::Context;
use fencing::lock::{AcquireError, sql::SqlLock};
use fencing::{Resource, sql};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// As `fencing run` says it.
const HELD: u8 = 75;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let path = std::env::args().nth(1).context("usage: cron_job FILE")?;
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await?;
    sql::migrate(&pool).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS reports (day TEXT PRIMARY KEY, token INTEGER)").execute(&pool).await?;

    let report = Resource::new("nightly-report")?;
    let lock = SqlLock::new(pool.clone());
    let lease = match lock.try_acquire(&report).await {
        Ok(lease) => lease,
        Err(AcquireError::Held { .. }) => return Ok(ExitCode::from(HELD)),
        Err(broken) => return Err(broken.into()),
    };
    // The report records that it is done for today: the lock alone does not know it.
    let mut tx = sql::begin(&pool, &report, lease.token()).await?;
    let written = sqlx::query("INSERT INTO reports VALUES (date('now'), $1) ON CONFLICT DO NOTHING")
        .bind(i64::from(lease.token()))
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    match written.rows_affected() {
        0 => println!("written before"),
        _ => println!("written with token {}", lease.token()),
    }
    lease.release().await?;
    lock.settle().await;
    Ok(ExitCode::SUCCESS)
}
