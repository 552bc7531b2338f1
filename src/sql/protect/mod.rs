//! Triggers that refuse a write without a token or with a stale one, in any language.

mod error;
mod mysql;
mod postgres;
mod sqlite;

use sqlx::Pool;

pub use self::error::{NameError, ProtectError};
use crate::database::{Database, Kind};
use crate::resource::Resource;

/// A table that its database guards by itself.
///
/// Each row belongs to a resource: one that a column names, or one for the whole table. The
/// triggers admit each write to the resource of its row, as [`admit`](super::admit()) does,
/// with the token that the client has presented:
///
/// - PostgreSQL: `SELECT fencing_present('34')` in the transaction that writes;
/// - MySQL: `SET @fencing_token = 34` before each statement that writes: the statement clears
///   it;
/// - SQLite: in the column `fencing_token` of the write itself, `UPDATE files SET body =
///   'new', fencing_token = 34 WHERE path = 'a'`. The column always reads as NULL. To delete
///   a row, write `UPDATE files SET fencing_token = -34`: a DELETE cannot carry a token.
///
/// The message of a refusal names the resource, the token and the mark. Its SQLSTATE is
/// ZF412 if the token is stale, and ZF428 if none was presented.
///
/// **Fencing.** It guards against every statement that fires triggers. A statement that fires
/// none gets past it: TRUNCATE and cascading foreign keys on MySQL, REPLACE on SQLite (for the
/// row that is replaced), a session as replica on PostgreSQL. So does anybody who may drop
/// the triggers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protect {
    pub(super) schema: Option<String>,
    pub(super) table: String,
    pub(super) named: Named,
}

/// Which resource a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Column { prefix: String, column: String },
    Whole(Resource),
}

impl Protect {
    /// Protects `table`, each row as the resource that `column` names. The table is
    /// `name` or `schema.name`.
    ///
    /// # Errors
    /// [`NameError`] if one cannot be a name.
    pub fn rows(table: &str, column: &str) -> Result<Protect, NameError> {
        let named = Named::Column { prefix: String::new(), column: name(column)? };
        Protect::new(table, named)
    }

    /// Protects `table`, all rows as this resource.
    ///
    /// # Errors
    /// [`NameError`] if the table cannot be a name.
    pub fn whole(table: &str, resource: Resource) -> Result<Protect, NameError> {
        Protect::new(table, Named::Whole(resource))
    }

    fn new(table: &str, named: Named) -> Result<Protect, NameError> {
        let (schema, table) = match table.split_once('.') {
            Some((schema, table)) => (Some(name(schema)?), name(table)?),
            None => (None, name(table)?),
        };
        Ok(Protect { schema, table, named })
    }

    /// Puts this text before the column's value in the name of the resource: `files/` makes
    /// `files/a` of `a`.
    ///
    /// # Errors
    /// [`NameError`] if the name of a resource cannot begin like that.
    pub fn prefix(mut self, text: &str) -> Result<Protect, NameError> {
        if !text.is_empty() && Resource::new(format!("{text}x")).is_err() {
            return Err(NameError);
        }
        if let Named::Column { prefix, .. } = &mut self.named {
            text.clone_into(prefix);
        }
        Ok(self)
    }

    /// Returns the statements that protect the table, or protect it anew.
    #[must_use]
    pub fn statements<DB: Database>(&self) -> Vec<String> {
        match DB::KIND {
            Kind::MySql => mysql::statements(self),
            Kind::Postgres => postgres::statements(self),
            Kind::Sqlite => sqlite::statements(self, "rowid"),
        }
    }

    /// Protects the table. On MySQL, where each statement commits by itself, the table is
    /// open for a moment if it was protected before.
    ///
    /// # Errors
    /// [`ProtectError`] says why: the table or the column is missing, the column's text depends
    /// on the session, you may not create triggers, others kept it locked.
    ///
    /// # Cancel safety
    /// If it is dropped, it is done or undone; on MySQL it may be half done: do it again.
    pub async fn apply<DB: Database>(&self, pool: &Pool<DB>) -> Result<(), ProtectError> {
        let mut tx = pool.begin_with(DB::BEGIN).await?;
        DB::execute(&mut tx, "SELECT token FROM fencing_marks LIMIT 0".into()).await?;
        self.check::<DB>(&mut tx, None).await?;
        if let Named::Column { column, .. } = &self.named {
            self.check::<DB>(&mut tx, Some(column)).await?;
            self.check_text::<DB>(&mut tx, column).await?;
        }
        match DB::KIND {
            Kind::Sqlite => {
                self.check::<DB>(&mut tx, Some("rowid")).await?;
                sqlite::apply::<DB>(self, &mut tx).await?;
            }
            Kind::MySql | Kind::Postgres => {
                if DB::KIND == Kind::MySql {
                    mysql::check_engine::<DB>(self, &mut tx).await?;
                }
                for statement in self.statements::<DB>() {
                    DB::execute(&mut tx, statement).await?;
                }
            }
        }
        Ok(tx.commit().await?)
    }

    /// Reads no row of the table, or of one column, to see that it is there: most databases
    /// create a trigger for a missing column, and then it refuses every write.
    async fn check<DB: Database>(
        &self,
        conn: &mut DB::Connection,
        column: Option<&str>,
    ) -> Result<(), ProtectError> {
        let mark = if DB::KIND == Kind::MySql { '`' } else { '"' };
        // SQLite would take a name alone for a text if it does not know it.
        let what = column.map(|column| format!("fenced.{}", quote(column, mark)));
        let (what, table) = (what.as_deref().unwrap_or("1"), self.path(mark));
        let select = format!("SELECT {what} FROM {table} AS fenced LIMIT 0");
        let read = DB::execute(conn, select).await;
        read.map_err(|source| ProtectError::of_check(&self.table, column, source))
    }

    /// Refuses a column whose text depends on the session: one row would have several names,
    /// each with a mark of its own.
    async fn check_text<DB: Database>(
        &self,
        conn: &mut DB::Connection,
        column: &str,
    ) -> Result<(), ProtectError> {
        let (sql, mut values) = match DB::KIND {
            Kind::Sqlite => return Ok(()),
            Kind::Postgres => (postgres::SESSION_DEPENDENT, vec![Some(self.path('"'))]),
            Kind::MySql => {
                (mysql::SESSION_DEPENDENT, vec![self.schema.clone(), Some(self.table.clone())])
            }
        };
        values.push(Some(column.to_owned()));
        let kind = DB::texts(conn, sql.into(), values).await?;
        match kind.into_iter().flatten().flatten().next() {
            None => Ok(()),
            Some(kind) => {
                let (table, column) = (self.table.clone(), column.to_owned());
                Err(ProtectError::SessionDependent { table, column, kind })
            }
        }
    }

    fn unguardable(&self, why: String) -> ProtectError {
        ProtectError::Unguardable { table: self.table.clone(), why }
    }

    /// Returns the table, quoted.
    pub(super) fn path(&self, mark: char) -> String {
        let table = quote(&self.table, mark);
        self.schema.iter().map(|schema| format!("{}.", quote(schema, mark))).collect::<String>()
            + &table
    }
}

fn name(text: &str) -> Result<String, NameError> {
    let fits = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(NameError) }
}

/// Quotes a name or a text, and doubles the marks within.
pub(super) fn quote(text: &str, mark: char) -> String {
    let mut quoted = String::from(mark);
    for c in text.chars() {
        quoted.push(c);
        if c == mark {
            quoted.push(c);
        }
    }
    quoted.push(mark);
    quoted
}

/// Writes a text in hexadecimal digits, which need no quoting.
pub(super) fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
