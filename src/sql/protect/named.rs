use fencing_protocol::Resource;

use crate::database::Kind;
use crate::database::quoted::{hex, literal, quote, unquote};

/// Which resource a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) enum Named {
    Columns { prefix: String, columns: Vec<String> },
    Whole(Resource),
}

impl Named {
    /// Whether it names anything: triggers may not say what they name.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Named::Columns { columns, .. } if columns.is_empty())
    }

    /// Returns the columns that name the resource.
    pub(super) fn columns(&self) -> &[String] {
        match self {
            Named::Columns { columns, .. } => columns,
            Named::Whole(_) => &[],
        }
    }

    /// Returns the name of a row's resource, for reading: `files/{path}`.
    pub(super) fn pattern(&self) -> String {
        match self {
            Named::Columns { prefix, columns } => {
                let columns: Vec<_> =
                    columns.iter().map(|column| format!("{{{column}}}")).collect();
                prefix.clone() + &columns.join("/")
            }
            Named::Whole(resource) => resource.to_string(),
        }
    }

    /// Writes the expression that names a row, in UTF-8 whatever the column's character set is.
    pub(super) fn expression(&self, kind: Kind, row: &str) -> String {
        let own = |text: &str| match kind {
            Kind::MySql => format!("x'{}'", hex(text)),
            Kind::Postgres => literal(text),
            Kind::Sqlite => quote(text, '\''),
        };
        let (prefix, columns) = match self {
            Named::Columns { prefix, columns } => (prefix, columns),
            Named::Whole(resource) => return own(resource.as_str()),
        };
        let text = |column: &String| {
            let column = format!("{row}.{}", quote(column, quote_mark(kind)));
            let text = match kind {
                Kind::MySql => format!("CONVERT({column} USING utf8mb4)"),
                Kind::Postgres => format!("{column}::text"),
                Kind::Sqlite => column,
            };
            if columns.len() == 1 {
                return text;
            }
            // As the migration for PostgreSQL says.
            let binary = if kind == Kind::MySql { " COLLATE utf8mb4_bin" } else { "" };
            format!("replace(replace({text}{binary}, '%', '%25'), '/', '%2F')")
        };
        let texts: Vec<_> = columns.iter().map(text).collect();
        match kind {
            Kind::MySql => format!("CONCAT({}, {})", own(prefix), texts.join(", '/', ")),
            _ => format!("{} || {}", own(prefix), texts.join(" || '/' || ")),
        }
    }

    /// Reads the columns `NEW.column` in a trigger's expression.
    pub(super) fn of_expression(prefix: String, expression: &str, mark: char) -> Option<Named> {
        let mut columns = Vec::new();
        let mut rest = expression;
        while let Some((_, after)) = rest.split_once("NEW.") {
            let (column, after) = unquote(after, mark)?;
            columns.push(column);
            rest = after;
        }
        (!columns.is_empty()).then_some(Named::Columns { prefix, columns })
    }
}

/// Returns what a name is quoted with.
pub(super) fn quote_mark(kind: Kind) -> char {
    if kind == Kind::MySql { '`' } else { '"' }
}
