use fencing_protocol::Resource;
use sqlx::{Sqlite, SqliteConnection};

use crate::database::protect::{Naming, Protect, ProtectStatements, Protected, TableName, Trigger};
use crate::database::{Dialect, TextRow, quote, unquote};

/// The events with a trigger each, in the order of creation: the newest fires first, so that a token is cleared last.
const EVENTS: [&str; 5] = ["inserted", "updated", "insert", "update", "delete"];

/// Names for the number of a row. A column may have one of them, and means itself then.
const ROWIDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// Reads the columns of a table: the name, and whether a token could not be put there and taken away again.
const COLUMNS: &str = "
    SELECT name, \"notnull\" OR hidden OR coalesce(dflt_value, 'NULL') <> 'NULL'
    FROM pragma_table_xinfo({table}, coalesce({schema}, 'main'))";

/// Reads the triggers of a table, oldest first: name and text.
const TRIGGERS: &str = "
    SELECT name, sql FROM {home}.sqlite_schema
    WHERE type = 'trigger' AND lower(tbl_name) = lower({table}) ORDER BY rowid";

/// The token that is being cleared. In SQLite the time does not change within a statement.
const PRESENTED: &str = "SELECT token FROM fencing_presented
        WHERE at = julianday('now') ORDER BY rowid DESC LIMIT 1";

const REPLACE: &str = "the row that INSERT OR REPLACE or UPDATE OR REPLACE removes through a unique \
    key other than its name, unless the session has PRAGMA recursive_triggers = ON, which refuses it";

/// Every writer presents its token in the column `fencing_token`. The last trigger clears it, so at rest it is NULL,
/// and a write without it presents nothing. GLOB: the value may be a text with token and resource; a minus before
/// either deletes the row. Clearing is an UPDATE, which fires the application's triggers. Their writes are part of the
/// same write, also earlier ones, while the row still has the token. While a token is cleared it is in
/// `fencing_presented`, above those of the enclosing writes. No trigger fires inside itself, and so none that checks
/// writes.
///
/// RAISE(FAIL) ends a statement and keeps its changes, this row included: the row counts only in the statement that
/// wrote it, which has one time from start to end. RAISE(IGNORE) skips the clearing: the write is refused, since the
/// token would count as presented for good. AFTER: before an insert, a key that the database generates is not known.
fn write_statements(protect: &Protect, rowid: &str) -> Vec<String> {
    let name = |name: &str| protect.table.beside(name).path('"');
    let create = format!("CREATE TABLE IF NOT EXISTS {} (token, at)", name("fencing_presented"));
    let triggers = EVENTS.map(|event| (name(&trigger_name(protect, event)), write_body(protect, event, rowid)));
    let drops = triggers.iter().map(|(name, _)| format!("DROP TRIGGER IF EXISTS {name}"));
    let creates = triggers.iter().map(|(name, body)| format!("CREATE TRIGGER {name} {body}"));
    [create].into_iter().chain(drops).chain(creates).collect()
}

fn trigger_name(protect: &Protect, event: &str) -> String {
    format!("fencing_{event}_{}", protect.table.name)
}

/// A trigger names no schema but in its own name.
fn write_body(protect: &Protect, event: &str, rowid: &str) -> String {
    let own = quote(&protect.table.name, '"');
    let [old, new] = ["OLD", "NEW"].map(|row| Sqlite::row_name(&protect.naming, row));
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
            protect.table.name
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
fn parse_naming(trigger: &str) -> Option<Naming> {
    let (prefix, rest) = unquote(trigger.split_once(" VALUES (")?.1, '\'')?;
    let (expression, _) = rest.split_once(",\n")?;
    match expression.is_empty() {
        true => Some(Naming::Whole(Resource::new(prefix).ok()?)),
        false => Naming::of_expression(prefix, expression, '"'),
    }
}

fn is_own(trigger: &str) -> bool {
    EVENTS.iter().any(|event| trigger.starts_with(&format!("fencing_{event}_")))
}

/// A name for the number of a row that no column has taken, or why the triggers could not guard the table.
enum RowId {
    Free(&'static str),
    Unguardable(&'static str),
}

async fn rowid_of(conn: &mut SqliteConnection, table: &TableName) -> sqlx::Result<RowId> {
    let mut free = ROWIDS.to_vec();
    for column in Sqlite::texts(conn, Sqlite::of_table(COLUMNS, table)).await? {
        let name = column.text(0).unwrap_or_default();
        free.retain(|rowid| !rowid.eq_ignore_ascii_case(name));
        if name.eq_ignore_ascii_case("fencing_token") && column.is_true(1) {
            let why = "its column fencing_token takes no NULL, has a default, or is generated: give \
                that another name, and the fence adds its own";
            return Ok(RowId::Unguardable(why));
        }
    }
    let hidden = RowId::Unguardable("its columns rowid, _rowid_ and oid hide the number of a row: rename one of them");
    Ok(free.first().copied().map_or(hidden, RowId::Free))
}

fn home(table: &TableName) -> String {
    quote(table.schema.as_deref().unwrap_or("main"), '"')
}

async fn read_triggers(conn: &mut SqliteConnection, table: &TableName) -> sqlx::Result<Vec<Trigger>> {
    Trigger::list::<Sqlite>(conn, Sqlite::of_table(TRIGGERS, table).replace("{home}", &home(table))).await
}

/// Looks for leftovers of a statement that failed and kept its changes: a token in a row, and one being cleared.
async fn find_leftovers(conn: &mut SqliteConnection, table: &TableName) -> Vec<String> {
    let rows = format!("SELECT 'x' FROM {} WHERE fencing_token IS NOT NULL LIMIT 1", table.path('"'));
    let kept = "a row keeps a token in fencing_token, which counts for later writes to it: write each \
        row WHERE fencing_token IS NOT NULL once with a newer token, which clears it";
    let left = "a token that a failed statement was clearing remains in fencing_presented until the \
        next write with a token";
    let presented = format!("SELECT 'x' FROM {}.fencing_presented LIMIT 1", home(table));
    let mut faults = Vec::new();
    for (select, fault) in [(rows, kept), (presented, left)] {
        match Sqlite::first(conn, select).await {
            Ok(found) => faults.extend(found.map(|_| fault.to_owned())),
            Err(error) => faults.push(format!("cannot check for leftover tokens: {error}")),
        }
    }
    faults
}

fn find_faults(protect: &Protect, found: &[Trigger], rowid: &str) -> Vec<String> {
    let own: Vec<_> = found.iter().filter(|found| is_own(&found.name)).cloned().collect();
    if own.is_empty() {
        let what = "it has the column fencing_token and no trigger of the fence: protect it again, \
            or drop the column";
        return vec![what.into()];
    }
    let expected = EVENTS.map(|event| {
        let name = trigger_name(protect, event);
        let text = format!("CREATE TRIGGER {} {}", quote(&name, '"'), write_body(protect, event, rowid));
        Trigger { name, text }
    });
    let mut faults = Trigger::faults(&expected, &own);
    let older = found.iter().take_while(|found| !is_own(&found.name));
    faults.extend(older.map(|older| {
        let name = &older.name;
        format!("the trigger {name} is older than the fence's, which may refuse its writes: protect the table again")
    }));
    faults
}

impl ProtectStatements for Sqlite {
    const STORED: Option<&'static str> = Some(
        "SELECT nullif(schema, 'main'), name FROM pragma_table_list
        WHERE schema = coalesce({schema}, 'main') COLLATE NOCASE AND name = {table} COLLATE NOCASE",
    );

    /// Reads the tables of a schema, and whether they have the column of the fence.
    const TABLES: &'static str = "
        SELECT nullif(own.schema, 'main'), own.name, own.schema = 'main', part.name IS NOT NULL
        FROM pragma_table_list AS own
        LEFT JOIN pragma_table_xinfo(own.name, own.schema) AS part ON part.name = 'fencing_token' COLLATE NOCASE
        WHERE own.schema = coalesce({schema}, 'main') AND own.type = 'table'
            AND own.name NOT LIKE 'fencing!_%' ESCAPE '!' ORDER BY own.name";

    fn row_name(naming: &Naming, row: &str) -> String {
        let text_of = |column: &str| format!("{row}.{}", quote(column, '"'));
        naming.expression(|text| quote(text, '\''), text_of, " || ")
    }

    fn protecting(protect: &Protect) -> Vec<String> {
        write_statements(protect, "rowid")
    }

    /// Creates the application's triggers again, too, in order: the token has to be there until the last has fired.
    async fn protect(conn: &mut SqliteConnection, protect: &Protect) -> sqlx::Result<Option<String>> {
        let table = protect.table.path('"');
        let rowid = match rowid_of(conn, &protect.table).await? {
            RowId::Free(name) => name,
            RowId::Unguardable(why) => return Ok(Some(why.into())),
        };
        if Self::execute(conn, format!("SELECT fenced.{rowid} FROM {table} AS fenced LIMIT 0")).await.is_err() {
            return Ok(Some("it is WITHOUT ROWID, or a view: SQLite's triggers could not clear a token there".into()));
        }
        let token = format!("SELECT 'x' FROM {table} AS fenced WHERE fenced.fencing_token IS NOT NULL LIMIT 1");
        match Self::first(conn, token).await {
            Ok(None) => {}
            Ok(Some(_)) => {
                let why = "it has rows with a value in fencing_token: set that to NULL, or rename the \
                    column if it is your own";
                return Ok(Some(why.into()));
            }
            Err(_) => Self::execute(conn, format!("ALTER TABLE {table} ADD COLUMN fencing_token ANY")).await?,
        }
        for statement in write_statements(protect, rowid) {
            Self::execute(conn, statement).await?;
        }
        let created = EVENTS.map(|event| trigger_name(protect, event));
        for other in read_triggers(conn, &protect.table).await? {
            if created.iter().any(|created| created.eq_ignore_ascii_case(&other.name)) {
                continue;
            }
            let home = home(&protect.table);
            Self::execute(conn, format!("DROP TRIGGER {home}.{}", quote(&other.name, '"'))).await?;
            // Triggers of an earlier name of the table are gone.
            if let (false, Some(rest)) = (is_own(&other.name), other.text.strip_prefix("CREATE TRIGGER ")) {
                Self::execute(conn, format!("CREATE TRIGGER {home}.{rest}")).await?;
            }
        }
        Ok(None)
    }

    async fn inspect(
        conn: &mut SqliteConnection,
        mut protect: Protect,
        row: &TextRow,
    ) -> sqlx::Result<Option<Protected>> {
        let triggers = read_triggers(conn, &protect.table).await?;
        if !row.is_true(3) && !triggers.iter().any(|found| is_own(&found.name)) {
            return Ok(None);
        }
        // The table may have been renamed since.
        let insert = triggers.iter().find(|found| found.name.starts_with("fencing_insert_"));
        if let Some(naming) = insert.and_then(|insert| parse_naming(&insert.text)) {
            protect.naming = naming;
        }
        let rowid = if let RowId::Free(name) = rowid_of(conn, &protect.table).await? { name } else { "rowid" };
        let mut protected = Protected::new(protect, row.is_true(2));
        let protect = &protected.protect;
        protected.faults = find_faults(protect, &triggers, rowid);
        protected.faults.extend(find_leftovers(conn, &protect.table).await);
        let replaces = matches!(protect.naming, Naming::Columns { .. });
        protected.unseen.extend(replaces.then(|| REPLACE.to_owned()));
        let own = triggers.iter().filter(|found| is_own(&found.name));
        let home = home(&protect.table);
        let drop = |own: &Trigger| format!("DROP TRIGGER IF EXISTS {home}.{}", quote(&own.name, '"'));
        protected.drops = own.map(drop).collect();
        Ok(Some(protected))
    }
}
