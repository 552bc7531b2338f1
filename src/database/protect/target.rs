use fencing_protocol::Resource;

use super::naming::{Naming, TableName};

/// A name that a table or column cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a table or column must have 1 to 64 characters and no control characters, a table must not be one of \
     the fence, and a prefix must not begin with white space"
)]
#[non_exhaustive]
pub struct NameError;

const OF_THE_FENCE: &str = "fencing_marks fencing_marks_base fencing_leases fencing_floor fencing_audit \
                            fencing_presented _fencing_migrations";

/// A table that the database itself is to guard.
///
/// Each row belongs to a resource: one that a column names, or one for the whole table. The triggers admit each write
/// to the resource of its row, as [`admit`](crate::sql::admit()) does, with the token that the client has presented
/// together with its resource ([`Sequencer`](crate::sequencer::Sequencer)):
///
/// - PostgreSQL: `SELECT fencing_present('34 files/a')` in the transaction that writes;
/// - MySQL: `SET @fencing_sequencer = '34 files/a'` before each statement that writes: the statement clears it;
/// - SQLite: in the column `fencing_token` of the write itself, `UPDATE files SET body = 'new', fencing_token = '34
///   files/a' WHERE path = 'a'`. The column always reads as NULL. To delete a row, write `UPDATE files SET
///   fencing_token = '-34 files/a'`: a DELETE cannot carry a token.
///
/// A bare token (`34`; on MySQL in `@fencing_token`) counts for rows of every resource. It guards
/// less: the holder of one lease may then write what belongs to another, and lock that holder out.
///
/// A refusal names resource, token and mark. Its SQLSTATE is ZF412 if the token is stale, ZF428 if none was presented.
///
/// **Fencing.** It guards against every statement that fires triggers. Others bypass it: TRUNCATE and cascading foreign
/// keys on MySQL, REPLACE on SQLite (for a row of another name), a session as replica on PostgreSQL. So do users that
/// may drop the triggers. [`protected`](crate::sql::protected()) lists for each table the writes that it does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Protect {
    pub(crate) table: TableName,
    pub(crate) naming: Naming,
    pub(crate) shadow: bool,
}

impl Protect {
    /// Protects `table`, each row as the resource that `column` names. The table is `name` or `schema.name`.
    ///
    /// # Errors
    /// [`NameError`] if one cannot be a name, or it is a table of the fence.
    pub fn rows(table: &str, column: &str) -> Result<Protect, NameError> {
        Protect::rows_by(table, &[column])
    }

    /// Protects `table`, each row as the resource that these columns name: their texts, joined by `/`. Of several, `%`
    /// in a text is written `%25` and `/` `%2F`: `('a/b', 'c')` is `a%2Fb/c`, and `('a', 'b/c')` is `a/b%2Fc`.
    ///
    /// # Errors
    /// [`NameError`] if one cannot be a name, or there is no column.
    pub fn rows_by(table: &str, columns: &[&str]) -> Result<Protect, NameError> {
        let columns = columns.iter().map(|column| name(column)).collect::<Result<Vec<_>, _>>()?;
        if columns.is_empty() {
            return Err(NameError);
        }
        Protect::new(table, Naming::Columns { prefix: String::new(), columns })
    }

    /// Protects `table`, all rows as this resource.
    ///
    /// # Errors
    /// [`NameError`] if the table cannot be a name.
    pub fn whole(table: &str, resource: Resource) -> Result<Protect, NameError> {
        Protect::new(table, Naming::Whole(resource))
    }

    fn new(table: &str, naming: Naming) -> Result<Protect, NameError> {
        let table = TableName::read(table);
        table.schema.iter().chain([&table.name]).try_for_each(|part| name(part).map(drop))?;
        // Its own triggers and procedures write there without a token.
        if OF_THE_FENCE.split(' ').any(|own| table.name.eq_ignore_ascii_case(own)) {
            return Err(NameError);
        }
        Ok(Protect { table, naming, shadow: false })
    }

    /// A table whose triggers do not say how its rows are named.
    pub(crate) fn unknown(table: TableName) -> Protect {
        let naming = Naming::Columns { prefix: String::new(), columns: Vec::new() };
        Protect { table, naming, shadow: false }
    }

    /// Puts this text before the columns' texts in the name of the resource: `files/` makes `files/a` of `a`.
    ///
    /// # Errors
    /// [`NameError`] if the name of a resource cannot begin like that.
    pub fn prefix(mut self, text: &str) -> Result<Protect, NameError> {
        if !text.is_empty() && Resource::new(format!("{text}x")).is_err() {
            return Err(NameError);
        }
        if let Naming::Columns { prefix, .. } = &mut self.naming {
            text.clone_into(prefix);
        }
        Ok(self)
    }

    /// Protects the table in shadow mode, on PostgreSQL: the triggers warn instead of refusing, in the server's log
    /// and to the client. They raise marks, but wait 10 ms at most for that. To switch the protection on, apply it
    /// without this call. On MySQL, MariaDB and SQLite a trigger's warning is lost: there use
    /// [`admit_in_shadow`](crate::sql::admit_in_shadow()).
    ///
    /// **Fencing.** None. It shows which writers would be refused.
    pub fn shadow(self) -> Protect {
        Protect { shadow: true, ..self }
    }
}

fn name(text: &str) -> Result<String, NameError> {
    let fits = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(NameError) }
}
