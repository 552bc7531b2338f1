//! The objects that the migrations create in a database, and which of them are missing.

use super::MigrateError;
use crate::database::quoted::{fill, quote};
use crate::database::{Database, Dialect, Meaning, Texts, meaning};

/// The tables that say which tokens are stale. The first migration creates them, and no other table.
const MEMORY: [&str; 2] = ["fencing_marks", "fencing_floor"];

/// A `table`, `view`, `routine` or `trigger`, and its name.
type Object = (&'static str, &'static str);

/// Returns the error if objects are lost or faulty, in this schema or the session's; if it `compares`, also if their
/// text is not that of this version. The marks and the floor were there once if `is_begun`, or if any object of a later
/// migration is there.
pub(super) async fn lost<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
    mut is_begun: bool,
    compares: bool,
) -> sqlx::Result<Option<MigrateError>> {
    let there = fill(DB::OBJECTS, &[("{schema}", &DB::DIALECT.catalogue(schema))]);
    let there = DB::texts(conn, there).await?;
    let home = home::<DB>(conn, schema).await?;
    let mut objects: Vec<Object> = objects::<DB>().collect();
    // The marks last: another process may be migrating.
    objects.sort_by_key(|(_, name)| MEMORY.contains(name));
    let (mut marks, mut others) = (Vec::new(), Vec::new());
    for (kind, name) in objects {
        let fault = match kind {
            "table" | "view" => {
                is_missing::<DB>(conn, format!("{home}{name}")).await?.then(String::new)
            }
            _ => fault::<DB>(&there, kind, name, compares),
        };
        is_begun |= match kind {
            "table" => fault.is_none() && !MEMORY.contains(&name),
            _ => find(&there, kind, |found| found == name).is_some(),
        };
        let lost = if MEMORY.contains(&name) { &mut marks } else { &mut others };
        lost.extend(fault.map(|fault| format!("the {kind} {name}{fault}")));
    }
    Ok(match (is_begun && !marks.is_empty(), others.is_empty()) {
        (true, _) => Some(MigrateError::MarksLost { what: marks.join(", ") }),
        (false, false) => Some(MigrateError::Lost { what: others.join(", ") }),
        (false, true) => None,
    })
}

/// Returns what is wrong with a routine or trigger; an empty text if it is not there.
fn fault<DB: Database>(there: &[Texts], kind: &str, name: &str, compares: bool) -> Option<String> {
    match find(there, kind, |found| found == name || found == "*") {
        None => Some(String::new()),
        Some([_, _, Some(fault)]) => Some(format!(" ({fault})")),
        Some([_, Some(text), _]) if compares && !is_own::<DB>(name, text) => {
            let first = if DB::DIALECT == Dialect::Sqlite { ": drop it first" } else { "" };
            Some(format!(" (there it has another text{first})"))
        }
        Some(_) => None,
    }
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
    // The text before it: a short text may be a part of others.
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

/// Returns the schema of the tables, this one or that where migrations are applied, with a dot. On PostgreSQL the path
/// may lead to tables of another one.
pub(super) async fn home<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
) -> sqlx::Result<String> {
    Ok(match (DB::DIALECT, schema) {
        (Dialect::Postgres, None) => {
            let home = "SELECT quote_ident(current_schema()) || '.'".to_owned();
            DB::first_text(conn, home).await?.unwrap_or_default()
        }
        (Dialect::Postgres, Some(schema)) => format!("{}.", quote(schema, '"')),
        (Dialect::MySql, None) => String::new(),
        (Dialect::MySql, Some(schema)) => format!("{}.", quote(schema, '`')),
        (Dialect::Sqlite, _) => "main.".to_owned(),
    })
}

/// Whether a table or view is missing. Where you may not look, it is not.
async fn is_missing<DB: Database>(conn: &mut DB::Connection, table: String) -> sqlx::Result<bool> {
    let Err(error) = DB::execute(conn, format!("SELECT 1 FROM {table} LIMIT 0")).await else {
        return Ok(false);
    };
    match error.as_database_error().map(meaning) {
        // MySQL says the same of a view without its table and of one whose table you may not read.
        Some(Meaning::NotMigrated) => Ok(!error.to_string().contains("lack rights")),
        Some(_) => Ok(false),
        None => Err(error),
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
