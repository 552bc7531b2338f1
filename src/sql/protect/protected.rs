use sqlx::{Pool, Transaction};

use super::error::ProtectError;
use super::target::Protect;
use crate::database::opening::{open_transaction, procedure_connection};
use crate::database::{Database, Dialect, Texts};

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
    /// The table by itself, and how its rows are named, if its triggers say it.
    pub(super) protect: Protect,
    /// Takes the triggers off.
    pub(super) drops: Vec<String>,
}

/// A trigger: its name and its text, or `!` and what is wrong with it.
pub(super) type Trigger = (String, String);

/// Puts together the triggers of each table. A row has the schema, the table, whether the name alone is enough, and
/// the trigger.
pub(super) fn by_table(rows: Vec<Texts>) -> Vec<(Protect, bool, Vec<Trigger>)> {
    let mut tables: Vec<(Protect, bool, Vec<Trigger>)> = Vec::new();
    for row in rows {
        let Ok([schema, Some(table), is_visible, Some(name), Some(text)]) =
            <[Option<String>; 5]>::try_from(row)
        else {
            continue;
        };
        let table = Protect::unknown(schema, table);
        match tables.last_mut() {
            Some((last, _, triggers)) if *last == table => triggers.push((name, text)),
            _ => tables.push((table, is_visible.as_deref() == Some("true"), vec![(name, text)])),
        }
    }
    tables
}

/// Compares the triggers of a table with those that it should have.
pub(super) fn trigger_faults(expected: &[Trigger], found: &[Trigger]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, text) in expected {
        let state = found.iter().find(|(own, _)| own == name).map(|(_, state)| state.as_str());
        let what = match state.map(|state| state.strip_prefix('!').ok_or(state)) {
            None => "is missing",
            Some(Ok(what)) => what,
            Some(Err(state)) if state == text => continue,
            Some(Err(_)) => "is not the one that `fencing protect` creates",
        };
        faults.push(format!("the trigger {name} {what}"));
    }
    let others = found.iter().filter(|(name, _)| expected.iter().all(|(own, _)| own != name));
    faults
        .extend(others.map(|(name, _)| {
            format!("the trigger {name} was created for a table of another name")
        }));
    faults
}

/// Opens a transaction that changes triggers. It waits a second at most for others who use the
/// table, because later ones wait behind it.
pub(super) async fn begin_change<DB: Database>(
    pool: &Pool<DB>,
) -> sqlx::Result<Transaction<'static, DB>> {
    let mut conn = procedure_connection(pool).await?;
    if let Some(set) = DB::SESSION_FOR_DDL {
        DB::execute(&mut conn, set.into()).await?;
    }
    open_transaction(conn, DB::BEGIN_BOUNDED.into()).await
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

    /// What the catalogue shows of a protected table, which the session may find by its name alone.
    pub(super) fn new(
        protect: Protect,
        is_visible: bool,
        faults: Vec<String>,
        unseen: Vec<String>,
        drops: Vec<String>,
    ) -> Protected {
        let table = match &protect.schema {
            Some(schema) if !is_visible => format!("{schema}.{}", protect.table),
            _ => protect.table.clone(),
        };
        Protected {
            table,
            resource: protect.naming.pattern(),
            faults,
            unseen,
            shadow: protect.shadow,
            protect,
            drops,
        }
    }

    /// A table that has no trigger of the fence.
    pub(super) fn none(table: &str, dialect: Dialect) -> Protected {
        let fault = match dialect {
            Dialect::MySql => {
                "it is not protected, or you lack the right TRIGGER to see its triggers"
            }
            Dialect::Postgres | Dialect::Sqlite => "it is not protected",
        };
        let table = Protect::unknown(None, table.to_owned());
        Protected::new(table, true, vec![fault.to_owned()], Vec::new(), Vec::new())
    }

    /// Returns whether this is the table: `name` or `schema.name`.
    pub(super) fn is(&self, table: &str) -> bool {
        let schema = self.protect.schema.as_deref().unwrap_or("main");
        table == self.table || table.split_once('.') == Some((schema, &self.protect.table))
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
        let mut tx = begin_change(pool).await?;
        for drop in &self.drops {
            DB::execute(&mut tx, drop.clone()).await?;
        }
        Ok(tx.commit().await?)
    }
}
