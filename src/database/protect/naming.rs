use fencing_protocol::Resource;

use crate::database::{quote, unquote};

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
