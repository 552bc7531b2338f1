use fencing_protocol::Resource;

use super::error::ProtectError;
use super::naming::Naming;
use super::protected::{Protected, Trigger, by_table, trigger_faults};
use super::target::Protect;
use crate::database::quoted::{quote, unquote};
use crate::database::{Database, Dialect};

/// The events that have a trigger each, in the order in which the triggers are created: the
/// newest one fires first, so that a token is cleared last.
const EVENTS: [&str; 5] = ["inserted", "updated", "insert", "update", "delete"];

/// Names for the number of a row. A column may have one of them, and means itself then.
const ROWIDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// Reads the columns of a table: the name, and whether a token could not be put there and taken
/// away again.
const COLUMNS: &str = "
    SELECT name, CAST(\"notnull\" OR hidden OR coalesce(dflt_value, 'NULL') <> 'NULL' AS TEXT)
    FROM pragma_table_xinfo({table}, coalesce({schema}, 'main'))";

/// Reads the triggers of tables, oldest first, and the tables that have the fence's column: no schema, the
/// table, that its name is enough, trigger and text, which are empty for the column.
const FOUND: &str = "
    SELECT NULL, tbl_name, 'true', name, sql FROM (
        SELECT tbl_name, name, sql, rowid AS nr FROM main.sqlite_schema
            WHERE type = 'trigger' AND tbl_name NOT LIKE 'fencing!_%' ESCAPE '!'
        UNION ALL
        SELECT own.name, '', '', 0 FROM main.sqlite_schema AS own,
            pragma_table_xinfo(own.name, 'main') AS part
            WHERE own.type = 'table' AND part.name = 'fencing_token' COLLATE NOCASE
    ) ORDER BY tbl_name, nr";

/// The token that is being cleared. In SQLite the time stands still within a statement.
const PRESENTED: &str = "SELECT token FROM fencing_presented
        WHERE at = julianday('now') ORDER BY rowid DESC LIMIT 1";

const REPLACE: &str = "the row that INSERT OR REPLACE or UPDATE OR REPLACE removes through a unique \
    key other than its name, unless the session has PRAGMA recursive_triggers = ON, which refuses it";

/// Every writer presents its token in the column `fencing_token`. The last trigger clears it, so
/// at rest it is NULL, and a write that does not mention it presents nothing. GLOB: the value may be a
/// text with token and resource, and a minus before either deletes the row.
///
/// Clearing is an UPDATE, which fires the triggers of the application. Their writes
/// are part of the same write, also earlier ones, while the row still has the token.
/// While a token is cleared it is in `fencing_presented`, above those of the enclosing
/// writes. No trigger fires inside itself, and so none that checks writes to the table.
///
/// RAISE(FAIL) ends a statement and keeps its changes, this row included: the row counts only
/// in the statement that wrote it, which has one time from start to end. RAISE(IGNORE)
/// skips the clearing: the write is refused, since the token would count as presented for good.
///
/// AFTER: before an insert, a key that the database generates is not known.
pub(super) fn statements(protect: &Protect, rowid: &str) -> Vec<String> {
    let presented = Protect { table: "fencing_presented".into(), ..protect.clone() }.path('"');
    let mut statements = vec![format!("CREATE TABLE IF NOT EXISTS {presented} (token, at)")];
    for event in EVENTS {
        let trigger = trigger(protect, event).path('"');
        statements.push(format!("DROP TRIGGER IF EXISTS {trigger}"));
    }
    for event in EVENTS {
        let trigger = trigger(protect, event).path('"');
        statements.push(format!("CREATE TRIGGER {trigger} {}", body(protect, event, rowid)));
    }
    statements
}

fn trigger(protect: &Protect, event: &str) -> Protect {
    let table = format!("fencing_{event}_{}", protect.table);
    Protect { table, ..protect.clone() }
}

/// A trigger names no schema but in its own name.
fn body(protect: &Protect, event: &str, rowid: &str) -> String {
    let own = quote(&protect.table, '"');
    let (old, new) = (
        protect.naming.expression(Dialect::Sqlite, "OLD"),
        protect.naming.expression(Dialect::Sqlite, "NEW"),
    );
    let admit = |name: &str, token: &str| {
        format!(
            "\n    INSERT INTO fencing_check VALUES ({name},\n        \
             coalesce({token}, ({PRESENTED})));"
        )
    };
    let kept = quote(
        &format!(
            "fencing: a trigger on {} skips the UPDATE that clears fencing_token, and the write is \
             undone: let its RAISE(IGNORE) pass an UPDATE that sets fencing_token to NULL",
            protect.table
        ),
        '\'',
    );
    let clear = format!(
        "\n    DELETE FROM fencing_presented WHERE at IS NOT julianday('now');\n    \
         INSERT INTO fencing_presented VALUES (NEW.fencing_token, julianday('now'));\n    \
         DELETE FROM {own} WHERE {rowid} = NEW.{rowid} AND fencing_token GLOB '-*';\n    \
         UPDATE {own} SET fencing_token = NULL\n        \
         WHERE {rowid} = NEW.{rowid} AND fencing_token IS NOT NULL;\n    \
         SELECT RAISE(ABORT, {kept})\n        \
         FROM {own} WHERE {rowid} = NEW.{rowid} AND fencing_token IS NOT NULL;\n    \
         DELETE FROM fencing_presented\n        \
         WHERE rowid = (SELECT max(rowid) FROM fencing_presented);"
    );
    let body = match event {
        "inserted" => {
            format!("INSERT ON {own}\n    WHEN NEW.fencing_token IS NOT NULL BEGIN{clear}")
        }
        "updated" => format!(
            "UPDATE ON {own}\n    \
             WHEN NEW.fencing_token IS NOT NULL\n        \
             AND NEW.fencing_token IS NOT OLD.fencing_token BEGIN{clear}"
        ),
        "insert" => format!("INSERT ON {own} BEGIN{}", admit(&new, "NEW.fencing_token")),
        "update" => format!(
            "UPDATE ON {own}\n    \
             WHEN OLD.fencing_token IS NULL OR NEW.fencing_token IS NOT NULL\n        \
             OR {old} IS NOT {new} OR NOT EXISTS ({PRESENTED})\nBEGIN{}{}",
            admit(&old, "NEW.fencing_token"),
            admit(&new, "NEW.fencing_token")
        ),
        _ => format!("DELETE ON {own} BEGIN{}", admit(&old, "OLD.fencing_token")),
    };
    format!("AFTER {body}\nEND")
}

/// Reads from the trigger of an insert how the rows are named.
fn naming(trigger: &str) -> Option<Naming> {
    let (prefix, rest) = unquote(trigger.split_once(" VALUES (")?.1, '\'')?;
    let (expression, _) = rest.split_once(",\n")?;
    match expression.is_empty() {
        true => Some(Naming::Whole(Resource::new(prefix).ok()?)),
        false => Naming::of_expression(prefix, expression, '"'),
    }
}

/// Returns a name for the number of a row that no column has taken.
async fn rowid<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> Result<&'static str, ProtectError> {
    let mut free = ROWIDS.to_vec();
    for row in DB::texts(conn, protect.of_table::<DB>(COLUMNS)).await? {
        let [Some(name), unfit] = &row[..] else { continue };
        free.retain(|rowid| !rowid.eq_ignore_ascii_case(name));
        if name.eq_ignore_ascii_case("fencing_token") && unfit.as_deref() != Some("0") {
            return Err(protect.unguardable(
                "its column fencing_token takes no NULL, has a default, or is generated: give \
                 that another name, and the fence adds its own"
                    .into(),
            ));
        }
    }
    free.first().copied().ok_or_else(|| {
        let why = "its columns rowid, _rowid_ and oid hide the number of a row: rename one of them";
        protect.unguardable(why.into())
    })
}

/// Protects the table, and creates the application's triggers on it again, in their order: the
/// token has to be there until the last of them has fired.
pub(super) async fn apply<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> Result<(), ProtectError> {
    let table = protect.path('"');
    let schema = quote(protect.schema.as_deref().unwrap_or("main"), '"');
    let rowid = rowid::<DB>(protect, conn).await?;
    let select = format!("SELECT fenced.{rowid} FROM {table} AS fenced LIMIT 0");
    if DB::execute(conn, select).await.is_err() {
        let why = "it is WITHOUT ROWID, or a view: SQLite's triggers could not clear a token there";
        return Err(protect.unguardable(why.into()));
    }
    let token =
        format!("SELECT 'x' FROM {table} AS fenced WHERE fenced.fencing_token IS NOT NULL LIMIT 1");
    match DB::texts(conn, token).await {
        Ok(rows) if rows.is_empty() => {}
        Ok(_) => {
            return Err(protect.unguardable(
                "it has rows with a value in fencing_token: set that to NULL, or rename the \
                 column if it is your own"
                    .into(),
            ));
        }
        Err(_) => {
            let add = format!("ALTER TABLE {table} ADD COLUMN fencing_token ANY");
            DB::execute(conn, add).await?;
        }
    }
    for statement in statements(protect, rowid) {
        DB::execute(conn, statement).await?;
    }
    let others = format!(
        "SELECT name, sql FROM {schema}.sqlite_schema
        WHERE type = 'trigger' AND lower(tbl_name) = lower({}) ORDER BY rowid",
        DB::DIALECT.literal(&protect.table)
    );
    for other in DB::texts(conn, others).await? {
        let [Some(name), Some(sql)] = &other[..] else { continue };
        if EVENTS.iter().any(|event| trigger(protect, event).table.eq_ignore_ascii_case(name)) {
            continue;
        }
        DB::execute(conn, format!("DROP TRIGGER {schema}.{}", quote(name, '"'))).await?;
        // Triggers of an earlier name of the table are gone.
        if let (false, Some(rest)) = (is_ours(name), sql.strip_prefix("CREATE TRIGGER ")) {
            DB::execute(conn, format!("CREATE TRIGGER {schema}.{rest}")).await?;
        }
    }
    Ok(())
}

fn is_ours(trigger: &str) -> bool {
    EVENTS.iter().any(|event| trigger.starts_with(&format!("fencing_{event}_")))
}

pub(super) async fn found<DB: Database>(conn: &mut DB::Connection) -> sqlx::Result<Vec<Protected>> {
    let rows = DB::texts(conn, FOUND.into()).await?;
    let mut found = Vec::new();
    for (mut table, is_visible, mut triggers) in by_table(rows) {
        let all = triggers.len();
        triggers.retain(|(name, _)| !name.is_empty());
        if triggers.len() == all && !triggers.iter().any(|(name, _)| is_ours(name)) {
            continue;
        }
        let insert = trigger(&table, "insert").table;
        let insert = triggers.iter().find(|(name, _)| *name == insert);
        if let Some(naming) = insert.and_then(|(_, sql)| naming(sql)) {
            table.naming = naming;
        }
        let rowid = rowid::<DB>(&table, conn).await.unwrap_or("rowid");
        let mut faults = faults(&table, &triggers, rowid);
        faults.extend(at_rest::<DB>(&table, conn).await);
        let replaces = matches!(table.naming, Naming::Columns { .. });
        let unseen = replaces.then(|| REPLACE.to_owned()).into_iter().collect();
        let ours = triggers.iter().filter(|(name, _)| is_ours(name));
        let drops = ours
            .map(|(name, _)| format!("DROP TRIGGER IF EXISTS main.{}", quote(name, '"')))
            .collect();
        found.push(Protected::new(table, is_visible, faults, unseen, drops));
    }
    Ok(found)
}

/// Looks for the leftovers of a statement that failed and kept its changes: a token in a row, and
/// one that was being cleared.
async fn at_rest<DB: Database>(protect: &Protect, conn: &mut DB::Connection) -> Vec<String> {
    let rows =
        format!("SELECT 'x' FROM {} WHERE fencing_token IS NOT NULL LIMIT 1", protect.path('"'));
    let kept = "a row keeps a token in fencing_token, which counts for later writes to it: write each \
        row WHERE fencing_token IS NOT NULL once with a newer token, which clears it";
    let left = "a token that a failed statement was clearing remains in fencing_presented until the \
        next write with a token";
    let mut faults = Vec::new();
    for (select, fault) in
        [(rows, kept), ("SELECT 'x' FROM main.fencing_presented LIMIT 1".into(), left)]
    {
        match DB::texts(conn, select).await {
            Ok(rows) if rows.is_empty() => {}
            Ok(_) => faults.push(fault.to_owned()),
            Err(error) => faults.push(format!("a token left behind can't be looked for: {error}")),
        }
    }
    faults
}

fn faults(protect: &Protect, found: &[Trigger], rowid: &str) -> Vec<String> {
    let ours: Vec<_> = found.iter().filter(|(name, _)| is_ours(name)).cloned().collect();
    if ours.is_empty() {
        let what = "it has the column fencing_token and no trigger of the fence: protect it again, \
            or drop the column";
        return vec![what.into()];
    }
    let expected = EVENTS.map(|event| {
        let name = trigger(protect, event).table;
        let text = format!("CREATE TRIGGER {} {}", quote(&name, '"'), body(protect, event, rowid));
        (name, text)
    });
    let mut faults = trigger_faults(&expected, &ours);
    let older = found.iter().take_while(|(name, _)| !is_ours(name));
    faults.extend(older.map(|(name, _)| {
        format!("the trigger {name} is older than the fence's, which may refuse it")
    }));
    faults
}
