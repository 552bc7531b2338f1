use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Pool, SqlSafeStr};
use tokio::time::{Instant, sleep};

use super::backend::Backend;
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
        match DB::migrate(pool, migrator::<DB>()).await {
            Err(MigrateError::Locked(_)) if Instant::now() < end => {
                sleep(super::marks::jitter(Duration::from_millis(100))).await;
            }
            result => return result,
        }
    }
}

/// The SQL of the migrations, in their order: version, what it is, and the statements. For
/// those who use another tool; each may be applied twice.
#[must_use]
pub fn migrations<DB: Database>() -> &'static [(i64, &'static str, &'static str)] {
    DB::MIGRATIONS
}

/// Where a transaction can create tables: all or nothing. `begin` or `lock` keep others
/// out until it ends.
#[allow(dead_code, reason = "MySQL has no such transactions")]
pub(super) async fn in_one_transaction<DB: Backend>(
    pool: &Pool<DB>,
    begin: &'static str,
    lock: Option<&'static str>,
    migrator: Migrator,
) -> Result<(), MigrateError> {
    let mut tx = pool.begin_with(begin).await?;
    if let Some(lock) = lock {
        DB::execute(&mut tx, lock.into()).await?;
    }
    migrator.run_direct(None, &mut *tx, false).await?;
    Ok(tx.commit().await?)
}

fn migrator<DB: Backend>() -> Migrator {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(DB::MIGRATIONS.iter().map(migration).collect());
    migrator.dangerous_set_table_name("_fencing_migrations");
    // Each database locks in its own way.
    migrator.set_locking(false);
    // An older process starts again while a newer one has migrated: tables only grow.
    migrator.set_ignore_missing(true);
    migrator
}
