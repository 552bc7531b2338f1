use super::naming::TableName;
use super::target::Protect;
use crate::database::{Dialect, TextRow};

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
