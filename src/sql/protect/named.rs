use fencing_protocol::Resource;

use super::quoted::unquote;

/// Which resource a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) enum Named {
    Columns { prefix: String, columns: Vec<String> },
    Whole(Resource),
}

impl Named {
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
