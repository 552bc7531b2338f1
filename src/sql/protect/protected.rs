use sqlx::Pool;

use super::ddl::begin;
use super::error::ProtectError;
use crate::database::{Database, Kind};

/// A protected table, as the database's catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Protected {
    /// The table: `name`, or `schema.name` where the session does not find the name alone.
    pub table: String,
    /// The resource of a row: `files/{path}`, or one name for the whole table. Empty if the
    /// triggers do not say it.
    pub resource: String,
    /// What is missing or not as [`Protect`](super::Protect) creates it.
    pub faults: Vec<String>,
    /// The writes that get past the triggers of this table even if they are whole.
    pub unseen: Vec<String>,
    /// Whether it is in shadow mode: its triggers refuse nothing ([`Protect::shadow`](super::Protect::shadow)).
    pub shadow: bool,
    /// The schema, and the name alone.
    pub(super) path: (String, String),
    /// Takes the triggers off.
    pub(super) drops: Vec<String>,
}

impl Protected {
    /// Returns whether the table is guarded as [`Protect`](super::Protect) would guard it today. One in
    /// shadow mode is not guarded.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty() && !self.shadow
    }

    /// Returns whether the table has any trigger of the fence.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        !self.drops.is_empty()
    }

    /// A table that has no trigger of the fence.
    pub(super) fn none(table: &str, kind: Kind) -> Protected {
        let fault = match kind {
            Kind::MySql => "it is not protected, or you lack the right TRIGGER to see its triggers",
            Kind::Postgres | Kind::Sqlite => "it is not protected",
        };
        Protected {
            table: table.to_owned(),
            resource: String::new(),
            faults: vec![fault.to_owned()],
            unseen: Vec::new(),
            shadow: false,
            path: (String::new(), table.to_owned()),
            drops: Vec::new(),
        }
    }

    /// Returns whether this is the table: `name` or `schema.name`.
    pub(super) fn is(&self, table: &str) -> bool {
        table == self.table || table.split_once('.') == Some((&self.path.0, &self.path.1))
    }

    /// Takes the triggers off the table: anybody may write to it from then on. The marks stay, and
    /// so does SQLite's column `fencing_token`.
    ///
    /// # Errors
    /// [`ProtectError`]: you may not drop the triggers, or others kept the table locked.
    ///
    /// # Cancel safety
    /// If you drop the future, the triggers are all removed or all there. On MySQL it may be half
    /// done: run it again.
    pub async fn remove<DB: Database>(&self, pool: &Pool<DB>) -> Result<(), ProtectError> {
        let mut tx = begin(pool).await?;
        for drop in &self.drops {
            DB::execute(&mut tx, drop.clone()).await?;
        }
        Ok(tx.commit().await?)
    }
}
