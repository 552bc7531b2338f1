use crate::database::quoted::quote;

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
