//! Triggers that refuse whoever writes without a token or with a stale one, in any
//! language.

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use sqlx::Pool;

use super::{Database, MigrateError};
use crate::resource::Resource;

/// A table that its database guards by itself.
///
/// Each row belongs to a resource: one that a column names, or one for the whole table. A
/// write to a row is admitted to its resource as [`admit`](super::admit()) does it, with the
/// token that the client has presented:
///
/// - PostgreSQL: `SET LOCAL fencing.token = '34'` in the transaction;
/// - MySQL: `SET @fencing_token = 34` in the session (clear it when the connection goes
///   back to its pool);
/// - SQLite: in the column `fencing_token` of the write itself, `UPDATE files SET body =
///   'new', fencing_token = 34 WHERE path = 'a'`, which reads as NULL ever after. A row is
///   deleted by `UPDATE files SET fencing_token = -34`, as a DELETE can carry nothing.
///
/// The message of a refusal names the resource, the token and the mark; its SQLSTATE is
/// ZF412 for a stale token and ZF428 for none.
///
/// **Fencing.** It refuses every statement that fires triggers. What fires none gets past
/// it: TRUNCATE and cascading foreign keys on MySQL, REPLACE on SQLite (for the row that is
/// replaced), a session as replica on PostgreSQL, and whoever drops the triggers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protect {
    pub(super) schema: Option<String>,
    pub(super) table: String,
    pub(super) named: Named,
}

/// How a row's resource is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Column { prefix: String, column: String },
    Whole(Resource),
}

/// A name that no table or column can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("names of tables and columns have 1 to 64 characters, and none is a control character")]
pub struct NameError;

impl Protect {
    /// Protects `table`, each row as the resource that `column` names. The table is
    /// `name` or `schema.name`.
    ///
    /// # Errors
    /// [`NameError`] for what cannot be a name.
    pub fn rows(table: &str, column: &str) -> Result<Protect, NameError> {
        let named = Named::Column { prefix: String::new(), column: name(column)? };
        Protect::new(table, named)
    }

    /// Protects `table`, all rows as this resource.
    ///
    /// # Errors
    /// [`NameError`] for what cannot be a name.
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

    /// What stands before the column's value in the name of the resource: `files/` makes
    /// `files/a` of `a`.
    ///
    /// # Errors
    /// [`NameError`] if it contains control characters or is no beginning of a resource.
    pub fn prefix(mut self, text: &str) -> Result<Protect, NameError> {
        if !text.is_empty() && Resource::new(format!("{text}x")).is_err() {
            return Err(NameError);
        }
        if let Named::Column { prefix, .. } = &mut self.named {
            text.clone_into(prefix);
        }
        Ok(self)
    }

    /// The statements that protect the table, or protect it anew.
    #[must_use]
    pub fn statements<DB: Database>(&self) -> Vec<String> {
        DB::protect(self)
    }

    /// Protects the table. On MySQL, where each statement commits by itself, the table is
    /// open for a moment if it was protected before.
    ///
    /// # Errors
    /// What the database said: no such table or column, no right to create triggers.
    ///
    /// # Cancel safety
    /// Dropped, it is done or undone; on MySQL it may be half done: do it again.
    pub async fn apply<DB: Database>(&self, pool: &Pool<DB>) -> Result<(), MigrateError> {
        let mut tx = pool.begin_with(DB::BEGIN).await?;
        for statement in DB::prepare_protect(self, &mut tx).await? {
            DB::execute(&mut tx, statement).await?;
        }
        for statement in self.statements::<DB>() {
            DB::execute(&mut tx, statement).await?;
        }
        Ok(tx.commit().await?)
    }

    /// The table, quoted.
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

/// Quotes a name or a text: the mark is doubled within.
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
