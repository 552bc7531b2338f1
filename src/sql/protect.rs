//! Triggers that refuse a write without a token or with a stale one, in any language.

use sqlx::{Pool, Transaction};

use super::AdmitError;
use super::installed::Inventory;
use super::migrate::unfit;
use crate::database::protect::TableName;
pub use crate::database::protect::{NameError, Protect, Protected};
use crate::database::{
    Database, Meaning, TextRow, explain, fill, meaning, open_transaction, procedure_connection, quote,
};

impl Protect {
    /// Returns the statements that protect the table, or protect it again, without those that depend on what
    /// [`apply`](Protect::apply) finds in the database: partitions, children, the application's triggers.
    ///
    /// # Errors
    /// [`ProtectError::NoShadow`].
    pub fn statements<DB: Database>(&self) -> Result<Vec<String>, ProtectError> {
        if self.shadow && !DB::HAS_SHADOW { Err(ProtectError::NoShadow) } else { Ok(DB::protecting(self)) }
    }

    /// Protects the table, on PostgreSQL with its partitions and the children that inherit from it. It reads the whole
    /// table first (not in shadow mode), as a row whose name is NULL, empty or longer than 255 bytes could not be
    /// changed. It waits a second at most for sessions that use the table, as later ones wait behind it. On MySQL each
    /// statement commits separately: if you may not LOCK TABLES, a table protected before is open for a moment.
    ///
    /// # Errors
    /// [`ProtectError`] says why: the database has no shadow mode, the table or the column is missing, the column's
    /// text depends on the session, the table is protected under other names already, it has rows without a name that
    /// the fence takes, triggers could not guard the table, you may not create them, it was locked for too long.
    ///
    /// # Cancel safety
    /// If you drop the future, the table is protected or as it was before. On MySQL it may be half done: run it again.
    pub async fn apply<DB: Database>(&self, pool: &Pool<DB>) -> Result<(), ProtectError> {
        self.statements::<DB>()?;
        let mut tx = begin_change(pool).await?;
        DB::execute(&mut tx, "SELECT token FROM fencing_marks LIMIT 0".into()).await?;
        let own = Protect { table: stored::<DB>(&mut tx, &self.table).await?, ..self.clone() };
        check_readable::<DB>(&mut tx, &own.table, None).await?;
        for column in own.naming.columns() {
            check_readable::<DB>(&mut tx, &own.table, Some(column)).await?;
            own.refuse(check_column::<DB>(&mut tx, &own.table, column).await?)?;
        }
        own.refuse(own.check_naming::<DB>(&mut tx).await?)?;
        own.refuse(own.check_rows::<DB>(&mut tx).await?)?;
        let home = DB::home(&mut tx, &own.table).await?;
        own.refuse(unfit::<DB>(&mut tx, home.as_deref()).await?.into_iter().next())?;
        own.refuse(DB::protect(&mut tx, &own).await?)?;
        Ok(tx.commit().await?)
    }

    fn refuse(&self, why: Option<String>) -> Result<(), ProtectError> {
        let Some(why) = why else { return Ok(()) };
        Err(ProtectError::Unguardable { table: self.table.name.clone(), why })
    }

    /// Refuses other names than those by which the table is protected already: the marks of the old
    /// names would not count any more, and a token that is stale under its old name could write.
    async fn check_naming<DB: Database>(&self, conn: &mut DB::Connection) -> sqlx::Result<Option<String>> {
        let table = &self.table;
        let mut found = find::<DB>(conn, Some(table)).await?.into_iter();
        let own = found.find(|found| found.is(table)).map(|own| own.protect.naming);
        let old = own.filter(|old| old.is_known() && *old != self.naming);
        Ok(old.map(|old| {
            let (old, new) = (old.pattern(), self.naming.pattern());
            format!(
                "it is already protected, with its rows named {old}: as {new} they would have no marks, and stale \
                 tokens could write. To change the names, stop the writers and remove the protection first \
                 (`fencing db protect --table {table} --remove`)"
            )
        }))
    }

    /// Refuses a table with rows that the triggers would refuse with any token: they could not be changed or deleted.
    async fn check_rows<DB: Database>(&self, conn: &mut DB::Connection) -> sqlx::Result<Option<String>> {
        if self.shadow || self.naming.columns().is_empty() {
            return Ok(None);
        }
        let name = DB::row_name(&self.naming, "fenced");
        let path = self.table.path(DB::QUOTE);
        let from = format!("FROM {path} AS fenced WHERE {name} IS NULL OR octet_length({name}) NOT BETWEEN 1 AND 255");
        let counts = DB::texts(conn, format!("SELECT count(*), count({name}) {from}")).await?;
        let count = |column| counts.first().and_then(|row| row.number(column)).unwrap_or(0_u64);
        let (all, long) = (count(0), count(1));
        Ok((all > 0).then(|| {
            format!(
                "{all} of its rows could not be changed later: {} without a name, because a column of it is NULL, and \
                 {long} whose name is empty or longer than 255 bytes. Give them names, or delete them: SELECT * {from}",
                all.saturating_sub(long)
            )
        }))
    }
}

impl Protected {
    /// Removes the table's triggers: its writes are no longer fenced. Marks and SQLite's column `fencing_token` stay.
    ///
    /// # Errors
    /// [`ProtectError`]: you may not drop the triggers, or others kept the table locked.
    ///
    /// # Cancel safety
    /// If you drop the future, the triggers are all removed or all there. On MySQL it may be half done: run it again.
    pub async fn remove<DB: Database>(&self, pool: &Pool<DB>) -> Result<(), ProtectError> {
        let mut tx = begin_change(pool).await?;
        for drop in &self.drops {
            DB::execute(&mut tx, drop.clone()).await?;
        }
        Ok(tx.commit().await?)
    }
}

/// Reads which tables are protected, or how this one is: `name` or `schema.name`. Without a schema it looks in SQLite's
/// main database, or the session's on MySQL. You need the right to see triggers: on MySQL that is TRIGGER.
///
/// The list omits a table without triggers, such as one recreated by another program or a dump. If
/// you name that table, the answer says that it is not protected.
///
/// # Errors
/// [`ProtectError::Table`] if there is no such table, [`ProtectError::Database`] if the catalogue can't be read.
///
/// # Cancel safety
/// It changes nothing.
pub async fn protected<DB: Database>(pool: &Pool<DB>, table: Option<&str>) -> Result<Vec<Protected>, ProtectError> {
    let mut conn = pool.acquire().await?;
    let named = match table {
        Some(table) => Some(stored::<DB>(&mut conn, &TableName::read(table)).await?),
        None => None,
    };
    let mut found = find::<DB>(&mut conn, named.as_ref()).await?;
    if let Some(table) = named {
        found.retain(|protected| protected.is(&table));
        if found.is_empty() {
            check_readable::<DB>(&mut conn, &table, None).await?;
            let faults = vec![DB::UNPROTECTED.to_owned()];
            return Ok(vec![Protected { faults, ..Protected::new(Protect::unknown(table), false) }]);
        }
    }
    for Protected { protect: Protect { table, naming, .. }, faults, .. } in &mut found {
        for column in naming.columns() {
            match check_readable::<DB>(&mut conn, table, Some(column)).await {
                Ok(()) => faults.extend(check_column::<DB>(&mut conn, table, column).await?),
                Err(error) => faults.push(error.to_string()),
            }
        }
        let home = DB::home(&mut conn, table).await?;
        let inventory = Inventory::read::<DB>(&mut conn, home.as_deref(), true).await?;
        faults.extend(inventory.lost().map(|error| error.to_string()));
        faults.extend(unfit::<DB>(&mut conn, home.as_deref()).await?);
    }
    Ok(found)
}

/// Names a table as the catalogue does, if it is there.
async fn stored<DB: Database>(conn: &mut DB::Connection, table: &TableName) -> sqlx::Result<TableName> {
    let Some(stored) = DB::STORED else { return Ok(table.clone()) };
    let rows = DB::texts(conn, DB::of_table(stored, table)).await?;
    let name = |row: &TextRow| Some(TableName { schema: row.owned(0), name: row.owned(1)? });
    Ok(rows.first().and_then(name).unwrap_or_else(|| table.clone()))
}

async fn find<DB: Database>(conn: &mut DB::Connection, named: Option<&TableName>) -> sqlx::Result<Vec<Protected>> {
    let schema = DB::catalogue(named.and_then(|named| named.schema.as_deref()));
    let tables = fill(DB::TABLES, &[("{schema}", &schema), ("{every}", &named.is_some())]);
    let mut found = Vec::new();
    for row in DB::texts(conn, tables).await? {
        let table = TableName { schema: row.owned(0), name: row.owned(1).unwrap_or_default() };
        found.extend(DB::inspect(conn, Protect::unknown(table), &row).await?);
    }
    Ok(found)
}

/// Opens a transaction that changes triggers. It waits a second at most for users of the table: others wait behind it.
async fn begin_change<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<Transaction<'static, DB>> {
    let mut conn = procedure_connection(pool).await?;
    if let Some(set) = DB::SESSION_FOR_DDL {
        DB::execute(&mut conn, set.into()).await?;
    }
    open_transaction(conn, DB::BOUNDED.begin.into()).await
}

/// Reads no row of the table, or of one column, to see that it is there: most databases
/// create a trigger for a missing column, and then it refuses every write.
async fn check_readable<DB: Database>(
    conn: &mut DB::Connection,
    table: &TableName,
    column: Option<&str>,
) -> Result<(), ProtectError> {
    // SQLite would take a name alone for a text if it does not know it.
    let what = column.map_or("1".into(), |column| format!("fenced.{}", quote(column, DB::QUOTE)));
    let select = format!("SELECT {what} FROM {} AS fenced LIMIT 0", table.path(DB::QUOTE));
    DB::execute(conn, select).await.map_err(|source| ProtectError::of_check(table, column, source))
}

/// Refuses a column whose text depends on the session: one row would have several names, each with a mark of its own.
async fn check_column<DB: Database>(
    conn: &mut DB::Connection,
    table: &TableName,
    column: &str,
) -> sqlx::Result<Option<String>> {
    let Some(kind) = DB::SESSION_DEPENDENT else { return Ok(None) };
    let kind = fill(&DB::of_table(kind, table), &[("{column}", &DB::catalogue(Some(column)))]);
    Ok(DB::first(conn, kind).await?.map(|kind| {
        format!(
            "its column {column} is of the type {kind}, and its text depends on the session: one row would have \
             several names. Name the rows by a text, a whole number or a uuid, which may be a generated column"
        )
    }))
}

/// Why a table was not protected. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// The table does not exist, or you may not read it.
    #[error("the table {table} does not exist, or you may not read it: {}", explain(.source))]
    Table {
        /// The table.
        table: String,
        /// The database's message.
        source: sqlx::Error,
    },
    /// The table does not have the column, or you may not read it.
    #[error("the table {table} has no column {column}, or you may not read it: {}", explain(.source))]
    Column {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The database's message.
        source: sqlx::Error,
    },
    /// The triggers could not guard this table as it is, or it is already protected and names its rows differently.
    #[error("the table {table} can't be protected: {why}")]
    Unguardable {
        /// The table.
        table: String,
        /// Why, and what to do.
        why: String,
    },
    /// Triggers in shadow mode need PostgreSQL: warnings of triggers in MySQL or SQLite are lost.
    #[error(
        "this database has no triggers in shadow mode: their warnings would be lost. Call \
         fencing::sql::admit_in_shadow in the writers"
    )]
    NoShadow,
    /// Others used the table for longer than a second, as long transactions and backups do.
    #[error(
        "other transactions kept the table locked for longer than a second; try again when they have ended: {}",
        explain(.0)
    )]
    Locked(#[source] sqlx::Error),
    /// The triggers were not created, a table or function of the fence is missing, or the database could not be
    /// reached. On MySQL some triggers may have been created.
    #[error("the table was not protected: {0}")]
    Database(#[source] AdmitError),
}

impl ProtectError {
    /// Reads the error of a statement that reads the table, or this column of it.
    fn of_check(table: &TableName, column: Option<&str>, source: sqlx::Error) -> ProtectError {
        let table = table.name.clone();
        match (meaning(&source), column.map(str::to_owned)) {
            (None | Some(Meaning::Conflict | Meaning::Closing), _) => source.into(),
            (_, Some(column)) => ProtectError::Column { table, column, source },
            (_, None) => ProtectError::Table { table, source },
        }
    }
}

impl From<sqlx::Error> for ProtectError {
    fn from(error: sqlx::Error) -> ProtectError {
        match AdmitError::from(error) {
            AdmitError::Retryable(error) => ProtectError::Locked(error),
            error => ProtectError::Database(error),
        }
    }
}
