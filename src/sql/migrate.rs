use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Pool, SqlSafeStr};
use tokio::time::{Instant, sleep};

use super::MigrateError;
use crate::database::{Database, FenceStatements};
use crate::random::jitter;

/// How long a database that others keep locked is asked again.
const LOCKED_LIMIT: Duration = Duration::from_secs(10);

/// Creates the tables of the fence, or brings them up to date: all or nothing, except on MySQL.
///
/// The table `_fencing_migrations` records what was applied; your own `_sqlx_migrations` is
/// never touched, so versions cannot clash. Run it at every start: it does nothing when there
/// is nothing to do, and any number of processes may call it at once. It leaves migrations of
/// a newer version of this crate alone. For other tools, [`migrations`] has the SQL.
///
/// # Errors
/// [`MigrateError::Locked`] if others kept the database locked for 10 seconds.
/// [`MigrateError::Cluster`] if several servers of a cluster take writes, and the fence does not
/// hold there. Otherwise what the database said.
///
/// # Cancel safety
/// If you drop the future, all is done or nothing; on MySQL a part may be done: run it again.
pub async fn migrate<DB: Database>(pool: &Pool<DB>) -> Result<(), MigrateError> {
    let end = Instant::now() + LOCKED_LIMIT;
    loop {
        let locked = match DB::migrate(pool, migrator::<DB>()).await.map_err(MigrateError::from) {
            Ok(true) => {
                let unguarded = DB::unguarded(pool).await?;
                return unguarded.map_or(Ok(()), |why| Err(MigrateError::Cluster(why)));
            }
            Ok(false) => "another process migrates".into(),
            Err(MigrateError::Locked(error)) => error,
            Err(error) => return Err(error),
        };
        if Instant::now() >= end {
            return Err(MigrateError::Locked(locked));
        }
        sleep(jitter(Duration::from_millis(100))).await;
    }
}

/// Returns the migrations in their order: version, description, and SQL. For other tools;
/// each may be applied twice.
#[must_use]
pub fn migrations<DB: Database>() -> &'static [(i64, &'static str, &'static str)] {
    DB::MIGRATIONS
}

/// Migrates where a transaction can create tables: all or nothing. `begin` or `lock` keep
/// others out until it ends.
#[allow(dead_code, reason = "MySQL has no such transactions")]
pub(super) async fn in_one_transaction<DB: FenceStatements>(
    pool: &Pool<DB>,
    begin: &'static str,
    lock: Option<&'static str>,
    migrator: Migrator,
) -> Result<bool, sqlx::migrate::MigrateError> {
    let mut tx = pool.begin_with(begin).await?;
    if let Some(lock) = lock {
        DB::execute(&mut tx, lock.into()).await?;
    }
    migrator.run_direct(None, &mut *tx, false).await?;
    tx.commit().await?;
    Ok(true)
}

fn migrator<DB: Database>() -> Migrator {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(DB::MIGRATIONS.iter().map(migration).collect());
    migrator.dangerous_set_table_name("_fencing_migrations");
    // Each database locks in its own way.
    migrator.set_locking(false);
    // An older process may start after a newer one has migrated: tables only grow.
    migrator.set_ignore_missing(true);
    migrator
}
