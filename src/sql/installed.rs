use std::collections::HashMap;

use super::migrate_error::MigrateError;
use crate::database::{Database, Meaning, TextRow, fill, meaning, quote};

/// The tables that say which tokens are stale. The first migration creates them, and no other table.
const MARK_TABLES: [&str; 2] = ["fencing_marks", "fencing_floor"];

/// A `table`, `view`, `routine` or `trigger`, and its name.
type Object = (&'static str, &'static str);

/// The objects of the fence that a database lacks, or that are faulty there.
#[derive(Default)]
pub(super) struct Inventory {
    /// Whether one of the objects is there, so that the [`MARK_TABLES`] were there once.
    pub(super) is_begun: bool,
    marks: Vec<String>,
    others: Vec<String>,
}

impl Inventory {
    /// Reads this schema, or the session's. If it `compares`, an object is faulty whose text is not this version's.
    pub(super) async fn read<DB: Database>(
        conn: &mut DB::Connection,
        schema: Option<&str>,
        compares: bool,
    ) -> sqlx::Result<Inventory> {
        let there = fill(DB::OBJECTS, &[("{schema}", &DB::catalogue(schema))]);
        let named = |row: TextRow| Some((row.owned(0)?, row));
        let there: HashMap<_, _> = DB::texts(conn, there).await?.into_iter().filter_map(named).collect();
        let home = read_home::<DB>(conn, schema).await?;
        let lines = DB::MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.lines());
        let mut objects: Vec<Object> = lines.filter_map(object).collect();
        // The marks last: another process may be migrating.
        objects.sort_by_key(|(_, name)| MARK_TABLES.contains(name));
        let mut inventory = Inventory::default();
        for (kind, name) in objects {
            let (is_stored, is_marks) = (matches!(kind, "table" | "view"), MARK_TABLES.contains(&name));
            let found = there.get(&format!("{kind} {name}"));
            let fault = match found.or_else(|| there.get(&format!("{kind} *"))) {
                Some(found) => find_fault::<DB>(found, name, compares).map(|fault| format!(" ({fault})")),
                None if is_stored && !is_missing::<DB>(conn, format!("{home}{name}")).await? => None,
                None => Some(String::new()),
            };
            inventory.is_begun |= found.is_some() || kind == "table" && fault.is_none() && !is_marks;
            let faults = if is_marks { &mut inventory.marks } else { &mut inventory.others };
            faults.extend(fault.map(|fault| format!("the {kind} {name}{fault}")));
        }
        if inventory.marks.is_empty() {
            // If this user may not read the row, assume that it is there.
            let floor = DB::first(conn, format!("SELECT 1 FROM {home}fencing_floor")).await;
            inventory.marks.extend(matches!(floor, Ok(None)).then(|| "the row of the table fencing_floor".into()));
        }
        Ok(inventory)
    }

    /// Returns the error if marks or floor are lost, where they were there once.
    pub(super) fn marks_lost(&self) -> Option<MigrateError> {
        (!self.marks.is_empty()).then(|| MigrateError::MarksLost { what: self.marks.join(", ") })
    }

    /// Returns the error if anything is lost, where marks and floor were there once.
    pub(super) fn lost(&self) -> Option<MigrateError> {
        let others = || (!self.others.is_empty()).then(|| MigrateError::Lost { what: self.others.join(", ") });
        self.marks_lost().or_else(others)
    }
}

/// Returns the fault that the catalogue reports for a routine or trigger, or that its text differs. A text that cannot
/// be compared is absent from the row, which is not a fault.
fn find_fault<DB: Database>(found: &TextRow, name: &str, compares: bool) -> Option<String> {
    let other = found.text(1).filter(|text| compares && !is_own::<DB>(name, text));
    found.owned(2).or(other.map(|_| "its text differs from this version".to_owned()))
}

/// Whether the migrations create an object of this name with this text, apart from white space.
fn is_own<DB: Database>(name: &str, text: &str) -> bool {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let text = dense(text);
    let pieces = DB::MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.split("CREATE "));
    // MariaDB executes these comments, and keeps their content.
    let mut pieces = pieces.map(|piece| {
        let piece = piece.replace("/*M!100000", "").replace("/*M!100602", "").replace("*/", "");
        dense(&piece.replace("SECURITY DEFINER", "SECURITY INVOKER"))
    });
    pieces.any(|piece| piece.contains(name) && piece.contains(&text))
}

/// Returns this schema, or that where migrations are applied, with a dot. On PostgreSQL the path may lead elsewhere.
pub(super) async fn read_home<DB: Database>(conn: &mut DB::Connection, schema: Option<&str>) -> sqlx::Result<String> {
    match schema {
        Some(schema) => Ok(quote(schema, DB::QUOTE) + "."),
        None => Ok(DB::first(conn, DB::HOME.into()).await?.unwrap_or_default()),
    }
}

/// Whether a table or view is missing. It is not if you may not see it.
async fn is_missing<DB: Database>(conn: &mut DB::Connection, table: String) -> sqlx::Result<bool> {
    let Err(error) = DB::execute(conn, format!("SELECT 1 FROM {table} LIMIT 0")).await else {
        return Ok(false);
    };
    match meaning(&error) {
        // MySQL says the same of a view without its table and of one whose table you may not read.
        Some(Meaning::NotMigrated) => Ok(!error.to_string().contains("lack rights")),
        Some(_) => Ok(false),
        None => Err(error),
    }
}

/// Reads which object a line creates: `CREATE OR REPLACE FUNCTION name(...`.
fn object(line: &'static str) -> Option<Object> {
    let mut words = line.strip_prefix("CREATE ")?.split([' ', '(']);
    let kind = words.find_map(|word| match word {
        "TABLE" => Some("table"),
        "VIEW" => Some("view"),
        "FUNCTION" | "PROCEDURE" => Some("routine"),
        "TRIGGER" => Some("trigger"),
        _ => None,
    })?;
    Some((kind, words.find(|word| !matches!(*word, "IF" | "NOT" | "EXISTS"))?))
}
