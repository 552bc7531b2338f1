use crate::database::{Dialect, TextRow};

/// A trigger of a table, and what it does, as the catalogue has it.
#[derive(Debug, Clone)]
pub struct Trigger {
    pub name: String,
    pub text: String,
}

impl Trigger {
    /// Reads triggers by a query for their names and texts.
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
