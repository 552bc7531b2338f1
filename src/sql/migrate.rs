use std::time::Duration;

use sqlx::migrate::{AppliedMigration, Migrate, Migration, MigrationType, Migrator};
use sqlx::{Pool, SqlSafeStr};

use super::installed::{Inventory, read_home};
use super::migrate_error::MigrateError;
use super::retry::{Retry, retry};
use crate::database::{Database, Meaning, fill, meaning};

/// How it tries again while others keep the database locked.
const RETRY: Retry = Retry::new().tries(u32::MAX).within(Duration::from_secs(10));

const RECORD: &str = "_fencing_migrations";

/// Creates the tables of the fence, or brings them up to date: all or nothing, except on MySQL.
///
/// The table `_fencing_migrations` records what was applied; your own `_sqlx_migrations` is never touched, so versions
/// cannot clash. Run it at every start: if everything is applied it reads that table and the catalogue, takes no lock,
/// and needs no right to create anything. Any number of processes may call it at once. It leaves migrations of a newer
/// version of this crate only. For other tools, [`migrations`] has the SQL.
///
/// # Errors
/// [`MigrateError::Locked`] if others kept the database locked for 10 seconds, [`MigrateError::MarksLost`] if the marks
/// were there once and are not any more, [`MigrateError::Lost`] if other tables, functions, procedures or triggers are
/// not, [`MigrateError::Changed`] if a migration was applied with another text, [`MigrateError::Unguarded`] if a table
/// was altered so that it has no transactions or no log, or if several servers of a cluster take writes, and the fence
/// does not hold there. Any other [`MigrateError`] has the database's message.
///
/// # Cancel safety
/// If you drop the future, either everything is done or nothing. On MySQL a part may be done: run it again.
pub async fn migrate<DB: Database>(pool: &Pool<DB>) -> Result<(), MigrateError> {
    retry(RETRY, || attempt(pool, true)).await
}

/// Checks what [`migrate`] checks, and changes nothing.
///
/// # Errors
/// [`MigrateError::Missing`] if a migration was not applied. The others are those of [`migrate`].
///
/// # Cancel safety
/// It changes nothing.
pub async fn check<DB: Database>(pool: &Pool<DB>) -> Result<(), MigrateError> {
    attempt(pool, false).await
}

/// Checks the migrations; with `applies` it applies the missing ones.
async fn attempt<DB: Database>(pool: &Pool<DB>, applies: bool) -> Result<(), MigrateError> {
    let migrator = build_migrator::<DB>();
    // No connection is kept while the pool is asked for one.
    let mut conn = pool.acquire().await?;
    let applied = read_applied::<DB>(&mut conn).await?;
    let is_begun = applied.iter().any(|applied| applied.version == 1);
    let inventory = Inventory::read::<DB>(&mut conn, None, false).await?;
    if let Some(error) = inventory.marks_lost().filter(|_| is_begun || inventory.is_begun) {
        return Err(error);
    }
    drop(conn);
    let is_applied = migrator.iter().all(|migration| {
        applied.iter().any(|applied| applied.version == migration.version && applied.checksum == migration.checksum)
    });
    if !is_applied && !applies {
        return Err(MigrateError::Missing);
    }
    if !is_applied && !DB::migrate(pool, migrator).await? {
        return Err(MigrateError::Locked("another process migrates".into()));
    }
    let mut conn = pool.acquire().await?;
    if let Some(error) = Inventory::read::<DB>(&mut conn, None, false).await?.lost() {
        return Err(error);
    }
    let mut faults = unfit::<DB>(&mut conn, None).await?;
    faults.extend(DB::unguarded(&mut conn).await?.map(str::to_owned));
    if faults.is_empty() { Ok(()) } else { Err(MigrateError::Unguarded(faults.join("; "))) }
}

/// Returns which tables of the fence, in this schema or the session's, lack what it needs: see `UNFIT`.
pub(super) async fn unfit<DB: Database>(conn: &mut DB::Connection, schema: Option<&str>) -> sqlx::Result<Vec<String>> {
    let Some(query) = DB::UNFIT else { return Ok(Vec::new()) };
    DB::column(conn, fill(query, &[("{schema}", &DB::catalogue(schema))])).await
}

/// Returns the migrations that were fully applied. It only reads: the migrator begins with CREATE TABLE IF NOT EXISTS.
async fn read_applied<DB: Database>(conn: &mut DB::Connection) -> Result<Vec<AppliedMigration>, MigrateError> {
    let record = read_home::<DB>(conn, None).await? + RECORD;
    let read = async {
        let dirty = conn.dirty_version(&record).await?;
        Ok::<_, sqlx::migrate::MigrateError>((dirty, conn.list_applied_migrations(&record).await?))
    };
    let (dirty, mut applied) = match read.await {
        Ok(read) => read,
        // Before the first migration there is no record.
        Err(sqlx::migrate::MigrateError::Execute(error)) if meaning(&error) == Some(Meaning::NotMigrated) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    applied.retain(|applied| Some(applied.version) != dirty);
    Ok(applied)
}

/// Returns the migrations in their order: version, description, and SQL. For other tools; each may be applied twice.
pub fn migrations<DB: Database>() -> &'static [(i64, &'static str, &'static str)] {
    DB::MIGRATIONS
}

/// Returns the SQL that removes the fence, the marks and the leases. Use it in the down migration of
/// another tool, or by hand. It fails while a table is protected ([`Protected::remove`](super::Protected::remove)).
///
/// **Fencing.** This ends all promises: without marks the fence, or a new one, refuses nothing. Stop all writers first.
pub fn removal<DB: Database>() -> &'static str {
    DB::REMOVAL
}

fn build_migrator<DB: Database>() -> Migrator {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(DB::MIGRATIONS.iter().map(migration).collect());
    migrator.dangerous_set_table_name(RECORD);
    // Each database locks in its own way.
    migrator.set_locking(false);
    // An older process may start after a newer one has migrated: tables only grow.
    migrator.set_ignore_missing(true);
    migrator
}
