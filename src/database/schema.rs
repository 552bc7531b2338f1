use sqlx::Pool;
use sqlx::migrate::{MigrateError, Migrator};

use super::{Dialect, open_transaction};

/// Migrations by version: description and SQL.
pub type Migrations = &'static [(i64, &'static str, &'static str)];

/// What the migrations create in one database, and how its catalogue shows that.
pub trait Schema: Dialect {
    const MIGRATIONS: Migrations;

    /// The SQL that removes the tables and functions. It fails while a table is protected.
    const REMOVAL: &'static str;

    /// Prepares a session that creates functions or triggers.
    const SESSION_FOR_DDL: Option<&'static str> = None;

    /// Reads the schema where migrations are applied, with a dot after it.
    const HOME: &'static str;

    /// Reads the functions and procedures (`routine name`) and triggers (`trigger name`) in a schema, or the session's;
    /// the text of each, if comparable, with the word before it, as a short text may be part of others; and its fault.
    /// The name `*` means that this user may not see all.
    const OBJECTS: &'static str;

    /// Reads which tables of the fence in a schema, or in the session's, have no transactions, no log or no
    /// primary key, which the fence needs. Each row is a sentence.
    const UNFIT: Option<&'static str> = None;

    /// Begins the transaction of the migrations. It keeps others out until it ends, or the lock does.
    const BEGIN_MIGRATION: &'static str = "BEGIN";
    /// Keeps other processes from migrating, where the transaction does not.
    const MIGRATION_LOCK: Option<&'static str> = None;

    /// Applies the migrations, all or nothing where a transaction can create tables, and keeps other processes from
    /// migrating meanwhile; false if another one migrates. Dropped, it leaves no lock behind.
    fn migrate(pool: &Pool<Self>, migrator: Migrator) -> impl Future<Output = Result<bool, MigrateError>> + Send {
        async move {
            // Dropped on the way, the driver would give the connection back with the transaction open.
            let mut tx = open_transaction(pool.acquire().await?, Self::BEGIN_MIGRATION.into()).await?;
            if let Some(lock) = Self::MIGRATION_LOCK {
                Self::execute(&mut tx, lock.into()).await?;
            }
            migrator.run_direct(None, &mut *tx, false).await?;
            tx.commit().await?;
            Ok(true)
        }
    }

    /// Returns why the fence does not hold on this server, if other servers of its cluster
    /// take writes as well and nothing makes their commits conflict.
    fn unguarded(_: &mut Self::Connection) -> impl Future<Output = sqlx::Result<Option<&'static str>>> + Send {
        async { Ok(None) }
    }
}

macro_rules! migrations {
    ($folder:literal) => {
        migrations!($folder: 1 marks, 2 admit, 3 leases, 4 lower, 5 prune)
    };
    ($folder:literal: $($version:literal $name:ident),*) => {
        &[$((
            $version,
            concat!("fencing ", stringify!($name)),
            include_str!(concat!(
                "../../../migrations/", $folder, "/000", $version, "_fencing_", stringify!($name), ".sql"
            )),
        )),*]
    };
}
pub(super) use migrations;
