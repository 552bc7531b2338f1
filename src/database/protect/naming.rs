use fencing_protocol::Resource;

use crate::database::quoted::unquote;

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
        match self {
            Naming::Columns { columns, .. } => columns,
            Naming::Whole(_) => &[],
        }
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

    /// Writes the expression that names a row: literals and texts of columns, and this `between` each two. Several
    /// columns are escaped, as the migration for PostgreSQL says.
    pub fn expression(
        &self,
        literal: impl Fn(&str) -> String,
        text_of: impl Fn(&str) -> String,
        between: &str,
    ) -> String {
        let (prefix, columns) = match self {
            Naming::Columns { prefix, columns } => (prefix, columns),
            Naming::Whole(resource) => return literal(resource.as_str()),
        };
        let text = |column: &String| match columns.len() {
            1 => text_of(column),
            _ => format!("replace(replace({}, '%', '%25'), '/', '%2F')", text_of(column)),
        };
        let texts: Vec<_> = columns.iter().map(text).collect();
        format!("{}{between}{}", literal(prefix), texts.join(&format!("{between}'/'{between}")))
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
