use fencing_protocol::Resource;

use crate::database::Dialect;
use crate::database::quoted::{hex, literal, quote, unquote};

/// Which resource a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) enum Naming {
    Columns { prefix: String, columns: Vec<String> },
    Whole(Resource),
}

impl Naming {
    /// Whether it names anything: triggers may not say what they name.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Naming::Columns { columns, .. } if columns.is_empty())
    }

    pub(super) fn columns(&self) -> &[String] {
        match self {
            Naming::Columns { columns, .. } => columns,
            Naming::Whole(_) => &[],
        }
    }

    /// Returns the name of a row's resource, for reading: `files/{path}`.
    pub(super) fn pattern(&self) -> String {
        match self {
            Naming::Columns { prefix, columns } => {
                let columns: Vec<_> =
                    columns.iter().map(|column| format!("{{{column}}}")).collect();
                prefix.clone() + &columns.join("/")
            }
            Naming::Whole(resource) => resource.to_string(),
        }
    }

    /// Writes the expression that names a row, in UTF-8 whatever the column's character set is.
    pub(super) fn expression(&self, dialect: Dialect, row: &str) -> String {
        let own = |text: &str| match dialect {
            Dialect::MySql => format!("x'{}'", hex(text)),
            Dialect::Postgres => literal(text),
            Dialect::Sqlite => quote(text, '\''),
        };
        let (prefix, columns) = match self {
            Naming::Columns { prefix, columns } => (prefix, columns),
            Naming::Whole(resource) => return own(resource.as_str()),
        };
        let text = |column: &String| {
            let column = format!("{row}.{}", quote(column, quote_mark(dialect)));
            let text = match dialect {
                Dialect::MySql => format!("CONVERT({column} USING utf8mb4)"),
                Dialect::Postgres => format!("{column}::text"),
                Dialect::Sqlite => column,
            };
            if columns.len() == 1 {
                return text;
            }
            // As the migration for PostgreSQL says.
            let binary = if dialect == Dialect::MySql { " COLLATE utf8mb4_bin" } else { "" };
            format!("replace(replace({text}{binary}, '%', '%25'), '/', '%2F')")
        };
        let texts: Vec<_> = columns.iter().map(text).collect();
        match dialect {
            Dialect::MySql => format!("CONCAT({}, {})", own(prefix), texts.join(", '/', ")),
            _ => format!("{} || {}", own(prefix), texts.join(" || '/' || ")),
        }
    }

    /// Reads the columns `NEW.column` in a trigger's expression.
    pub(super) fn of_expression(prefix: String, expression: &str, mark: char) -> Option<Naming> {
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

pub(super) fn quote_mark(dialect: Dialect) -> char {
    if dialect == Dialect::MySql { '`' } else { '"' }
}
