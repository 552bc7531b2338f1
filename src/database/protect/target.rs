use fencing_protocol::Resource;

use crate::database::{Dialect, TextRow, quote, unquote};

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

/// The name of a table, with its schema unless the session finds it without.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq)]
#[display("{}{name}", schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default())]
pub struct TableName {
    pub schema: Option<String>,
    pub name: String,
}

impl TableName {
    /// Reads `name` or `schema.name`.
    pub fn read(text: &str) -> TableName {
        match text.split_once('.') {
            Some((schema, name)) => TableName { schema: Some(schema.into()), name: name.into() },
            None => TableName { schema: None, name: text.into() },
        }
    }

    /// The name of something else in the same schema.
    #[allow(dead_code, reason = "a trigger of PostgreSQL has no schema")]
    pub fn beside(&self, name: impl Into<String>) -> TableName {
        TableName { schema: self.schema.clone(), name: name.into() }
    }

    /// Writes the name for a statement.
    pub fn path(&self, mark: char) -> String {
        let schema = self.schema.iter().map(|schema| quote(schema, mark) + ".");
        schema.collect::<String>() + &quote(&self.name, mark)
    }
}

/// Which resource a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    Columns { prefix: String, columns: Vec<String> },
    Whole(Resource),
}

impl Naming {
    /// Whether it names anything: triggers may not show it.
    pub fn is_known(&self) -> bool {
        !matches!(self, Naming::Columns { columns, .. } if columns.is_empty())
    }

    pub fn columns(&self) -> &[String] {
        if let Naming::Columns { columns, .. } = self { columns } else { &[] }
    }

    /// Returns the name of a row's resource, for reading: `files/{path}`.
    pub fn pattern(&self) -> String {
        match self {
            Naming::Columns { prefix, columns } => {
                let columns: Vec<_> = columns.iter().map(|column| format!("{{{column}}}")).collect();
                prefix.clone() + &columns.join("/")
            }
            Naming::Whole(resource) => resource.to_string(),
        }
    }

    /// Writes the expression that names a row: literals and texts of columns, and this `glue` between each two. Several
    /// columns are escaped, as the migration for PostgreSQL says.
    pub fn expression(&self, literal: impl Fn(&str) -> String, text_of: impl Fn(&str) -> String, glue: &str) -> String {
        let (prefix, columns) = match self {
            Naming::Columns { prefix, columns } => (prefix, columns),
            Naming::Whole(resource) => return literal(resource.as_str()),
        };
        let text = |column: &String| match columns.len() {
            1 => text_of(column),
            _ => format!("replace(replace({}, '%', '%25'), '/', '%2F')", text_of(column)),
        };
        let texts: Vec<_> = columns.iter().map(text).collect();
        format!("{}{glue}{}", literal(prefix), texts.join(&format!("{glue}'/'{glue}")))
    }

    /// Reads the columns `NEW.column` in a trigger's expression.
    #[allow(dead_code, reason = "PostgreSQL keeps the names of the columns as arguments")]
    pub fn of_expression(prefix: String, expression: &str, mark: char) -> Option<Naming> {
        let mut columns = Vec::new();
        let mut rest = expression;
        while let Some((_, after)) = rest.split_once("NEW.") {
            let (column, after) = unquote(after, mark)?;
            columns.push(column);
            rest = after;
        }
        (!columns.is_empty()).then_some(Naming::Columns { prefix, columns })
    }
}

/// A protected table, as the database's catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Protected {
    /// The table: `name`, or `schema.name` where the session does not find the name alone.
    pub table: String,
    /// The resource of a row: `files/{path}`, or one name for the whole table. Empty if the triggers do not say it.
    pub resource: String,
    /// The parts that are missing or differ from those of [`Protect`].
    pub faults: Vec<String>,
    /// The writes that bypass the triggers of this table even if they are whole.
    pub unseen: Vec<String>,
    /// Whether it is in shadow mode: its triggers refuse nothing ([`Protect::shadow`]).
    pub shadow: bool,
    /// The table, and how its rows are named, if its triggers show it.
    pub(crate) protect: Protect,
    /// Takes the triggers off.
    pub(crate) drops: Vec<String>,
}

impl Protected {
    /// Returns whether the table is guarded as [`Protect`] would guard it today. One in shadow mode is not guarded.
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty() && !self.shadow
    }

    /// Returns whether the table has any trigger of the fence.
    pub fn is_protected(&self) -> bool {
        !self.drops.is_empty()
    }

    /// A table without triggers of the fence, which the session may find by its name alone.
    pub(crate) fn new(protect: Protect, is_visible: bool) -> Protected {
        let table = if is_visible { protect.table.name.clone() } else { protect.table.to_string() };
        let (resource, shadow) = (protect.naming.pattern(), protect.shadow);
        Protected { table, resource, faults: Vec::new(), unseen: Vec::new(), shadow, protect, drops: Vec::new() }
    }

    /// Returns whether this is the table: `name` or `schema.name`, as the catalogue has it.
    pub(crate) fn is(&self, table: &TableName) -> bool {
        self.table == table.to_string() || self.protect.table == *table
    }
}

/// A trigger of a table, and what it does, as the catalogue has it.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "PostgreSQL reads its triggers as a tree")]
pub struct Trigger {
    pub name: String,
    pub text: String,
}

#[allow(dead_code, reason = "PostgreSQL reads its triggers as a tree")]
impl Trigger {
    pub async fn list<DB: Dialect>(conn: &mut DB::Connection, query: String) -> sqlx::Result<Vec<Trigger>> {
        let trigger = |row: &TextRow| Some(Trigger { name: row.owned(0)?, text: row.owned(1)? });
        Ok(DB::texts(conn, query).await?.iter().filter_map(trigger).collect())
    }

    /// Compares the triggers of a table with those that it should have.
    pub fn faults<'a>(expected: &'a [Trigger], found: &'a [Trigger]) -> Vec<String> {
        let find = |all: &'a [Trigger], name: &str| all.iter().find(|own| own.name == name);
        let fault = |Trigger { name, text }: &Trigger| match find(found, name) {
            None => Some(format!("the trigger {name} is missing: protect the table again")),
            Some(own) if own.text == *text => None,
            Some(_) => Some(format!(
                "the trigger {name} is not the one that `fencing db protect` creates: protect the table again"
            )),
        };
        let others = found.iter().filter(|own| find(expected, &own.name).is_none());
        let others = others.map(|Trigger { name, .. }| {
            format!("the trigger {name} was created for a table of another name: protect the table again")
        });
        expected.iter().filter_map(fault).chain(others).collect()
    }
}
