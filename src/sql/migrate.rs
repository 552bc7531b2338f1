use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Pool, SqlSafeStr};
use tokio::time::{Instant, sleep};

use super::backend::{Backend, Refusal};
use super::{Database, MigrateError};

/// How long a database that others keep locked is asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Creates the tables of the fence, or brings them up to date, in one transaction.
///
/// What was applied is noted in the table `_fencing_migrations`; the application's own
/// `_sqlx_migrations` is never touched, so versions cannot clash. Run it at every start:
/// it does nothing when there is nothing to do, and any number of processes may call it
/// at once. Migrations of a newer version of this crate are left alone. The SQL stands in
/// the folder `migrations` for those who use another tool.
///
/// # Errors
/// [`MigrateError::Locked`] if others kept the database locked for 10 seconds.
/// Otherwise what the database said.
///
/// # Cancel safety
/// Dropped, the transaction is rolled back, or it was committed already.
pub async fn migrate<DB: Database>(pool: &Pool<DB>) -> Result<(), MigrateError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match apply(pool).await {
            Err(MigrateError::Locked(_)) if Instant::now() < end => {
                sleep(super::marks::jitter(Duration::from_millis(100))).await;
            }
            result => return result,
        }
    }
}

async fn apply<DB: Backend>(pool: &Pool<DB>) -> Result<(), MigrateError> {
    let mut tx = pool.begin_with(DB::BEGIN_MIGRATION).await.map_err(classify::<DB>)?;
    DB::lock_migrations(&mut tx).await.map_err(classify::<DB>)?;
    let migrated = migrator::<DB>().run_direct(None, &mut *tx, false).await;
    migrated.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error) => classify::<DB>(error),
        error => MigrateError::Migration(error),
    })?;
    tx.commit().await.map_err(classify::<DB>)
}

fn migrator<DB: Backend>() -> Migrator {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(DB::MIGRATIONS.iter().map(migration).collect());
    migrator.dangerous_set_table_name("_fencing_migrations");
    // `lock_migrations` has locked.
    migrator.set_locking(false);
    // An older process starts again while a newer one has migrated: tables only grow.
    migrator.set_ignore_missing(true);
    migrator
}

fn classify<DB: Backend>(error: sqlx::Error) -> MigrateError {
    match error.as_database_error().map(DB::refusal) {
        Some(Refusal::Conflict) => MigrateError::Locked(error),
        _ => MigrateError::Database(error),
    }
}
