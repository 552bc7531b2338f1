//! The objects that the migrations create in a database, and which of them are missing.

use super::MigrateError;
use crate::database::quoted::quote;
use crate::database::{Database, Dialect, Meaning, Texts, meaning};

/// The tables that say which tokens are stale. The first migration creates them, and no other table.
const MEMORY: [&str; 2] = ["fencing_marks", "fencing_floor"];

/// A `table`, `view`, `routine` or `trigger`, and its name.
type Object = (&'static str, &'static str);

/// Returns the error if the marks or the floor are lost, in this schema or the session's. They were there once if
/// `is_begun`, or if any object of a later migration is there.
///
/// It looks for the marks last: another process may be migrating.
pub(super) async fn marks_lost<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
    mut is_begun: bool,
) -> sqlx::Result<Option<MigrateError>> {
    let there = catalogue::<DB>(conn, schema).await?;
    for (kind, name) in objects::<DB>() {
        if is_begun || kind == "view" || MEMORY.contains(&name) {
            continue;
        }
        is_begun = match kind {
            "table" => !is_missing::<DB>(conn, schema, name).await?,
            _ => find(&there, kind, |found| found == name).is_some(),
        };
    }
    let mut lost = Vec::new();
    for table in MEMORY {
        if is_begun && is_missing::<DB>(conn, schema, table).await? {
            lost.push(format!("the table {table}"));
        }
    }
    let what = lost.join(", ");
    Ok((!lost.is_empty()).then_some(MigrateError::MarksLost { what }))
}

/// Returns the error if objects are lost or faulty, in this schema or the session's; if it `compares`, also if their
/// text is not that of this version.
pub(super) async fn lost<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
    compares: bool,
) -> sqlx::Result<Option<MigrateError>> {
    let there = catalogue::<DB>(conn, schema).await?;
    let mut lost = Vec::new();
    for (kind, name) in objects::<DB>() {
        if matches!(kind, "table" | "view") {
            if is_missing::<DB>(conn, schema, name).await? {
                lost.push(format!("the {kind} {name}"));
            }
            continue;
        }
        match find(&there, kind, |found| found == name || found == "*") {
            None => lost.push(format!("the {kind} {name}")),
            Some([_, _, Some(fault)]) => lost.push(format!("the {kind} {name} ({fault})")),
            Some([_, Some(text), _]) if compares && !is_own::<DB>(name, text) => {
                let first = if DB::DIALECT == Dialect::Sqlite { ": drop it first" } else { "" };
                lost.push(format!("the {kind} {name} (there it has another text{first})"));
            }
            Some(_) => {}
        }
    }
    let what = lost.join(", ");
    Ok((!lost.is_empty()).then_some(MigrateError::Lost { what }))
}

async fn catalogue<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
) -> sqlx::Result<Vec<Texts>> {
    let values = DB::OBJECTS.matches(['?', '$']).map(|_| schema.map(str::to_owned)).collect();
    DB::texts(conn, DB::OBJECTS.into(), values).await
}

/// Finds a routine or trigger: its kind and name, its text, and its fault.
fn find<'a>(
    there: &'a [Texts],
    kind: &str,
    is_it: impl Fn(&str) -> bool,
) -> Option<&'a [Option<String>]> {
    let is_it = |row: &Texts| {
        let object = row.first().and_then(Option::as_deref).and_then(|text| text.split_once(' '));
        object.is_some_and(|(found, name)| found == kind && is_it(name))
    };
    there.iter().find(|row| is_it(row)).map(Vec::as_slice)
}

/// Whether the migrations create an object of this name with this text, apart from white space.
fn is_own<DB: Database>(name: &str, text: &str) -> bool {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    // What stands before the text: a short one stands within others.
    let before = match DB::DIALECT {
        Dialect::MySql => "SQLSECURITYINVOKER",
        Dialect::Postgres => "$fencing$",
        Dialect::Sqlite => "TRIGGERIFNOTEXISTS",
    };
    let text = format!("{before}{}", dense(text));
    let pieces = DB::MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.split("CREATE "));
    // MariaDB executes these comments, and keeps their content.
    let mut pieces = pieces.map(|piece| {
        let piece = piece.replace("/*M!100000", "").replace("/*M!100602", "").replace("*/", "");
        dense(&piece.replace("SECURITY DEFINER", "SECURITY INVOKER"))
    });
    pieces.any(|piece| piece.contains(name) && piece.contains(&text))
}

/// Whether a table or view is missing. Where you may not look, it is not.
async fn is_missing<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
    name: &str,
) -> sqlx::Result<bool> {
    let home = match (DB::DIALECT, schema) {
        (Dialect::Postgres, None) => {
            let home = "SELECT quote_ident(current_schema()) || '.'".to_owned();
            DB::first_text(conn, home, Vec::new()).await?.unwrap_or_default()
        }
        (Dialect::Postgres, Some(schema)) => format!("{}.", quote(schema, '"')),
        (Dialect::MySql, schema) => {
            schema.map(|schema| format!("{}.", quote(schema, '`'))).unwrap_or_default()
        }
        (Dialect::Sqlite, _) => "main.".to_owned(),
    };
    match DB::execute(conn, format!("SELECT 1 FROM {home}{name} LIMIT 0")).await {
        Ok(()) => Ok(false),
        Err(error) => match error.as_database_error().map(meaning) {
            // MySQL says the same of a view without its table and of one whose table you may not read.
            Some(Meaning::NotMigrated) => Ok(!error.to_string().contains("lack rights")),
            Some(_) => Ok(false),
            None => Err(error),
        },
    }
}

fn objects<DB: Database>() -> impl Iterator<Item = Object> {
    DB::MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.lines()).filter_map(object)
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
