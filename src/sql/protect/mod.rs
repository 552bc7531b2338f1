//! Triggers that refuse a write without a token or with a stale one, in any language.

mod error;
mod mysql;
mod naming;
mod postgres;
mod protected;
mod sqlite;
mod target;

use sqlx::Pool;

pub use self::error::{NameError, ProtectError};
use self::naming::quote_mark;
pub use self::protected::Protected;
pub use self::target::Protect;
use crate::database::quoted::{fill, quote};
use crate::database::{Database, Dialect};
use crate::sql::migrate::unfit;
use crate::sql::objects::lost;

impl Protect {
    /// Returns the statements that protect the table, or protect it again, without those that depend on what
    /// [`apply`](Protect::apply) finds in the database: partitions, children, the application's
    /// triggers.
    ///
    /// # Errors
    /// [`ProtectError::NoShadow`].
    pub fn statements<DB: Database>(&self) -> Result<Vec<String>, ProtectError> {
        self.check_shadow(DB::DIALECT)?;
        Ok(match DB::DIALECT {
            Dialect::MySql => mysql::statements(self),
            Dialect::Postgres => postgres::statements(self),
            Dialect::Sqlite => sqlite::statements(self, "rowid"),
        })
    }

    fn check_shadow(&self, dialect: Dialect) -> Result<(), ProtectError> {
        match self.shadow && dialect != Dialect::Postgres {
            true => Err(ProtectError::NoShadow),
            false => Ok(()),
        }
    }

    /// Protects the table, on PostgreSQL with its partitions and the children that inherit from
    /// it. It reads the whole table first (not in shadow mode), because a row whose name is NULL,
    /// empty or longer than 255 bytes could not be changed. It waits a second at most for others who use the table, because
    /// later ones wait behind it. On MySQL each statement commits by itself: if you may not LOCK TABLES,
    /// a table that was protected before is open for a moment.
    ///
    /// # Errors
    /// [`ProtectError`] says why: the database has no shadow mode, the table or the column is missing, the column's text depends
    /// on the session, the table is protected under other names already, it has rows without a name that
    /// the fence takes, triggers could not guard the table, you may not create them, others kept it locked.
    ///
    /// # Cancel safety
    /// If you drop the future, the table is protected or as it was before. On MySQL it may be half
    /// done: run it again.
    pub async fn apply<DB: Database>(&self, pool: &Pool<DB>) -> Result<(), ProtectError> {
        self.check_shadow(DB::DIALECT)?;
        let mut tx = protected::begin_change(pool).await?;
        DB::execute(&mut tx, "SELECT token FROM fencing_marks LIMIT 0".into()).await?;
        self.check::<DB>(&mut tx, None).await?;
        for column in self.naming.columns() {
            self.check::<DB>(&mut tx, Some(column)).await?;
            self.check_text::<DB>(&mut tx, column).await?;
        }
        self.check_names::<DB>(&mut tx).await?;
        self.check_rows::<DB>(&mut tx).await?;
        match DB::DIALECT {
            Dialect::MySql => mysql::apply::<DB>(self, &mut tx).await?,
            Dialect::Postgres => postgres::apply::<DB>(self, &mut tx).await?,
            Dialect::Sqlite => sqlite::apply::<DB>(self, &mut tx).await?,
        }
        Ok(tx.commit().await?)
    }

    /// Puts the names of the table into a query of the catalogue.
    fn of_table<DB: Database>(&self, sql: &str) -> String {
        let name = |name| DB::DIALECT.catalogue(name);
        let (schema, table) = (name(self.schema.as_deref()), name(Some(self.table.as_str())));
        let path = name(Some(self.path('"').as_str()));
        fill(sql, &[("{schema}", &schema), ("{table}", &table), ("{path}", &path)])
    }

    /// Reads no row of the table, or of one column, to see that it is there: most databases
    /// create a trigger for a missing column, and then it refuses every write.
    async fn check<DB: Database>(
        &self,
        conn: &mut DB::Connection,
        column: Option<&str>,
    ) -> Result<(), ProtectError> {
        let mark = quote_mark(DB::DIALECT);
        // SQLite would take a name alone for a text if it does not know it.
        let what = column.map(|column| format!("fenced.{}", quote(column, mark)));
        let (what, table) = (what.as_deref().unwrap_or("1"), self.path(mark));
        let select = format!("SELECT {what} FROM {table} AS fenced LIMIT 0");
        let read = DB::execute(conn, select).await;
        read.map_err(|source| ProtectError::of_check(&self.table, column, source))
    }

    /// Refuses other names than those by which the table is protected already: the marks of the old
    /// names would not count any more, and a token that is stale under its old name could write.
    async fn check_names<DB: Database>(
        &self,
        conn: &mut DB::Connection,
    ) -> Result<(), ProtectError> {
        let schema = self.schema.as_ref();
        let path = schema.map(|schema| format!("{schema}.{}", self.table));
        let path = path.as_deref().unwrap_or(&self.table);
        let found = found::<DB>(conn, Some(path)).await?;
        let own = found.into_iter().find(|protected| protected.is(path));
        match own.map(|own| own.protect.naming) {
            Some(naming) if naming.is_known() && naming != self.naming => {
                let (names, others) = (naming.pattern(), self.naming.pattern());
                Err(self.unguardable(format!(
                    "it is protected, and its rows are named {names}: as {others} they would have no marks, and stale \
                     tokens could write. To change the names, stop the writers and remove the protection first \
                     (`fencing protect --table {path} --remove`)"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a table with rows that the triggers would refuse with any token: they could not be changed or deleted.
    async fn check_rows<DB: Database>(
        &self,
        conn: &mut DB::Connection,
    ) -> Result<(), ProtectError> {
        if self.shadow || self.naming.columns().is_empty() {
            return Ok(());
        }
        let name = self.naming.expression(DB::DIALECT, "fenced");
        let (bytes, text) = match DB::DIALECT {
            Dialect::MySql => (format!("LENGTH({name})"), "CHAR"),
            Dialect::Postgres => (format!("octet_length({name})"), "text"),
            Dialect::Sqlite => (format!("length(CAST({name} AS BLOB))"), "TEXT"),
        };
        let from = format!(
            "FROM {} AS fenced WHERE {name} IS NULL OR {bytes} NOT BETWEEN 1 AND 255",
            self.path(quote_mark(DB::DIALECT))
        );
        let count =
            format!("SELECT CAST(count(*) AS {text}), CAST(count({name}) AS {text}) {from}");
        let counts = DB::texts(conn, count).await?;
        let counts = counts.into_iter().flatten().map(|count| count?.parse().ok());
        let [all, long] = counts.map(Option::unwrap_or_default).collect::<Vec<u64>>()[..] else {
            return Ok(());
        };
        if all == 0 {
            return Ok(());
        }
        Err(self.unguardable(format!(
            "nobody could change {all} of its rows: {} without a name, because a column of it is NULL, and {long} \
             whose name is empty or longer than 255 bytes. Give them names, or delete them: SELECT * {from}",
            all.saturating_sub(long)
        )))
    }

    /// Refuses a column whose text depends on the session: one row would have several names,
    /// each with a mark of its own.
    async fn check_text<DB: Database>(
        &self,
        conn: &mut DB::Connection,
        column: &str,
    ) -> Result<(), ProtectError> {
        let sql = match DB::DIALECT {
            Dialect::Sqlite => return Ok(()),
            Dialect::Postgres => postgres::SESSION_DEPENDENT,
            Dialect::MySql => mysql::SESSION_DEPENDENT,
        };
        let column_name = DB::DIALECT.catalogue(Some(column));
        let sql = fill(&self.of_table::<DB>(sql), &[("{column}", &column_name)]);
        let Some(kind) = DB::first_text(conn, sql).await? else { return Ok(()) };
        Err(self.unguardable(format!(
            "its column {column} is of the type {kind}, and its text depends on the session: one row would have \
             several names. Name the rows by a text, a whole number or a uuid, which may be a generated column"
        )))
    }
}

/// Reads from the catalogue which tables are protected, or how this one is: `name` or
/// `schema.name`. On SQLite it looks in the main database only, on MySQL in the session's, unless
/// you name a schema. You need the right to see triggers: on MySQL that is TRIGGER.
///
/// The list leaves out a table that has lost its triggers because another program, or a dump
/// without triggers, has created it again. If you name that table, the answer says that it is not
/// protected.
///
/// # Errors
/// [`ProtectError::Table`] if there is no such table, [`ProtectError::Database`] if the catalogue
/// can't be read.
///
/// # Cancel safety
/// It changes nothing.
pub async fn protected<DB: Database>(
    pool: &Pool<DB>,
    table: Option<&str>,
) -> Result<Vec<Protected>, ProtectError> {
    let mut conn = pool.acquire().await?;
    let mut found = found::<DB>(&mut conn, table).await?;
    if let Some(table) = table {
        found.retain(|protected| protected.is(table));
        if found.is_empty() {
            let (schema, name) = match table.split_once('.') {
                Some((schema, name)) => (Some(schema.to_owned()), name),
                None => (None, table),
            };
            Protect::unknown(schema, name.to_owned()).check::<DB>(&mut conn, None).await?;
            return Ok(vec![Protected::none(table, DB::DIALECT)]);
        }
    }
    for protected in &mut found {
        let protect = &protected.protect;
        for column in protect.naming.columns() {
            let fault = match protect.check::<DB>(&mut conn, Some(column)).await {
                Ok(()) => protect.check_text::<DB>(&mut conn, column).await,
                error => error,
            };
            protected.faults.extend(fault.err().map(|error| error.to_string()));
        }
        let home = match DB::DIALECT {
            // A trigger finds the marks in the schema of its table.
            Dialect::MySql => protect.schema.clone(),
            Dialect::Postgres => {
                DB::first_text(&mut conn, protect.of_table::<DB>(postgres::HOME)).await?
            }
            Dialect::Sqlite => None,
        };
        let lost = lost::<DB>(&mut conn, home.as_deref(), true, true).await?;
        protected.faults.extend(lost.map(|error| error.to_string()));
        protected.faults.extend(unfit::<DB>(&mut conn, home.as_deref()).await?);
    }
    Ok(found)
}

async fn found<DB: Database>(
    conn: &mut DB::Connection,
    table: Option<&str>,
) -> sqlx::Result<Vec<Protected>> {
    match DB::DIALECT {
        Dialect::MySql => {
            let schema = table.and_then(|table| table.split_once('.')).map(|(schema, _)| schema);
            mysql::found::<DB>(conn, schema).await
        }
        Dialect::Postgres => postgres::found::<DB>(conn, table.is_some()).await,
        Dialect::Sqlite => sqlite::found::<DB>(conn).await,
    }
}
