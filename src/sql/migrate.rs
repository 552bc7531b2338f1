use std::collections::HashMap;
use std::time::Duration;

use sqlx::migrate::{AppliedMigration, Migrate, Migration, MigrationType, Migrator};
use sqlx::{Pool, SqlSafeStr};

use super::MigrateError;
use super::retry::{Retry, retry};
use crate::database::{Database, Meaning, TextRow, fill, meaning, quote};

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
    if let Some(error @ MigrateError::MarksLost { .. }) = find_lost::<DB>(&mut conn, None, is_begun, false).await? {
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
    if let Some(error) = find_lost::<DB>(&mut conn, None, true, false).await? {
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

/// The tables that say which tokens are stale. The first migration creates them, and no other table.
const MEMORY: [&str; 2] = ["fencing_marks", "fencing_floor"];

/// A `table`, `view`, `routine` or `trigger`, and its name.
type Object = (&'static str, &'static str);

/// Returns the error if objects are lost or faulty, in this schema or the session's; if it `compares`, also if their
/// text is not this version's. Marks and floor were there once if `is_begun`, or an object of a later migration is.
pub(super) async fn find_lost<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
    mut is_begun: bool,
    compares: bool,
) -> sqlx::Result<Option<MigrateError>> {
    let there = fill(DB::OBJECTS, &[("{schema}", &DB::catalogue(schema))]);
    let named = |row: TextRow| Some((row.owned(0)?, row));
    let there: HashMap<_, _> = DB::texts(conn, there).await?.into_iter().filter_map(named).collect();
    let home = read_home::<DB>(conn, schema).await?;
    let lines = DB::MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.lines());
    let mut objects: Vec<Object> = lines.filter_map(object).collect();
    // The marks last: another process may be migrating.
    objects.sort_by_key(|(_, name)| MEMORY.contains(name));
    let (mut marks, mut others) = (Vec::new(), Vec::new());
    for (kind, name) in objects {
        let is_stored = matches!(kind, "table" | "view");
        let found = there.get(&format!("{kind} {name}"));
        let fault = match found.or_else(|| there.get(&format!("{kind} *"))) {
            Some(found) => find_fault::<DB>(found, name, compares).map(|fault| format!(" ({fault})")),
            None if is_stored && !is_missing::<DB>(conn, format!("{home}{name}")).await? => None,
            None => Some(String::new()),
        };
        is_begun |= found.is_some() || kind == "table" && fault.is_none() && !MEMORY.contains(&name);
        let lost = if MEMORY.contains(&name) { &mut marks } else { &mut others };
        lost.extend(fault.map(|fault| format!("the {kind} {name}{fault}")));
    }
    if is_begun && !marks.is_empty() {
        return Ok(Some(MigrateError::MarksLost { what: marks.join(", ") }));
    }
    Ok((!others.is_empty()).then(|| MigrateError::Lost { what: others.join(", ") }))
}

/// Returns the fault that the catalogue reports for a routine or trigger, or that its text differs. A text that cannot
/// be compared is absent from the row, which is not a fault.
fn find_fault<DB: Database>(found: &TextRow, name: &str, compares: bool) -> Option<String> {
    let other = found.text(1).filter(|text| compares && !is_own::<DB>(name, text));
    let first = found.text(3).unwrap_or_default();
    let other = other.map(|_| format!("its text differs from this version{first}"));
    found.owned(2).or(other)
}

/// Whether the migrations create an object of this name with this text, apart from white space.
fn is_own<DB: Database>(name: &str, text: &str) -> bool {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let text = dense(text);
    let pieces = DB::MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.split("CREATE "));
    // MariaDB executes these comments, and keeps their content.
    let mut pieces = pieces.map(|piece| {
        let piece = piece.replace("/*M!100000", "").replace("/*M!100602", "").replace("*/", "");
        dense(&piece.replace("SECURITY DEFINER", "SECURITY INVOKER"))
    });
    pieces.any(|piece| piece.contains(name) && piece.contains(&text))
}

/// Returns this schema, or that where migrations are applied, with a dot. On PostgreSQL the path may lead elsewhere.
async fn read_home<DB: Database>(conn: &mut DB::Connection, schema: Option<&str>) -> sqlx::Result<String> {
    match schema {
        Some(schema) => Ok(quote(schema, DB::QUOTE) + "."),
        None => Ok(DB::first(conn, DB::HOME.into()).await?.unwrap_or_default()),
    }
}

/// Whether a table or view is missing. It is not if you may not see it.
async fn is_missing<DB: Database>(conn: &mut DB::Connection, table: String) -> sqlx::Result<bool> {
    let Err(error) = DB::execute(conn, format!("SELECT 1 FROM {table} LIMIT 0")).await else {
        return Ok(false);
    };
    match meaning(&error) {
        // MySQL says the same of a view without its table and of one whose table you may not read.
        Some(Meaning::NotMigrated) => Ok(!error.to_string().contains("lack rights")),
        Some(_) => Ok(false),
        None => Err(error),
    }
}

/// Reads which object a line creates: `CREATE OR REPLACE FUNCTION name(...`.
fn object(line: &'static str) -> Option<Object> {
    let mut words = line.strip_prefix("CREATE ")?.split([' ', '(']);
    let kind = words.find_map(|word| match word {
        "TABLE" => Some("table"),
        "VIEW" => Some("view"),
        "FUNCTION" | "PROCEDURE" => Some("routine"),
        "TRIGGER" => Some("trigger"),
        _ => None,
    })?;
    Some((kind, words.find(|word| !matches!(*word, "IF" | "NOT" | "EXISTS"))?))
}
