mod naming;
mod protected;
mod target;

pub use self::naming::{Naming, TableName};
pub use self::protected::Protected;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub use self::protected::Trigger;
pub use self::target::{NameError, Protect};
use super::{Dialect, TextRow, fill};

/// The triggers that guard a table, and the catalogue that shows them.
pub trait ProtectStatements: Dialect {
    /// Whether there is a shadow mode: warnings of triggers are not lost.
    const HAS_SHADOW: bool = false;

    /// The reason why the catalogue shows no trigger.
    const UNPROTECTED: &'static str = "it is not protected";

    /// Reads the type of a `{column}` of the table where its text is not the same in every session.
    const SESSION_DEPENDENT: Option<&'static str> = None;

    /// Writes the expression that names a `row`, in UTF-8 whatever the column's character set is.
    fn row_name(naming: &Naming, row: &str) -> String;

    /// Returns the statements that protect this one table, or protect it again.
    fn protecting(protect: &Protect) -> Vec<String>;

    /// Protects the table, or returns why the triggers could not guard it: then roll the transaction back.
    fn protect(
        conn: &mut Self::Connection,
        protect: &Protect,
    ) -> impl Future<Output = sqlx::Result<Option<String>>> + Send;

    /// Reads the name of a table as it was created, where names that differ in case alone may be one table. The schema is
    /// NULL if the session finds the table without it.
    const STORED: Option<&'static str> = None;

    /// Reads the tables that may be protected, in this `{schema}` or the session's: schema, name, and whether the name
    /// alone is enough. If one is named, `{every}` fence counts.
    const TABLES: &'static str;

    /// Returns the schema of the fence that a protected table calls, if it is not the session's.
    fn home(_: &mut Self::Connection, _: &TableName) -> impl Future<Output = sqlx::Result<Option<String>>> + Send {
        async { Ok(None) }
    }

    /// Reads how a table is protected that has this row there, if it is.
    fn inspect(
        conn: &mut Self::Connection,
        table: Protect,
        row: &TextRow,
    ) -> impl Future<Output = sqlx::Result<Option<Protected>>> + Send;

    /// Puts the name of a table into a query of the catalogue.
    fn of_table(sql: &str, table: &TableName) -> String {
        let path = table.path('"');
        let [schema, table, path] = [table.schema.as_deref(), Some(&table.name), Some(&path)].map(Self::catalogue);
        fill(sql, &[("{schema}", &schema), ("{table}", &table), ("{path}", &path)])
    }
}
