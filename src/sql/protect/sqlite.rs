use futures_util::future::BoxFuture;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::{Named, Protect, quote};

/// The tokens of all writers pass through the column `fencing_token`. It is NULL at rest,
/// for the trigger clears it when the write is admitted: a write that does not mention it
/// presents nothing. That the trigger clears it is not a write of anybody's.
///
/// AFTER: before an insert, a key that the database gives is not known.
pub(in crate::sql) fn statements(protect: &Protect) -> Vec<String> {
    // A trigger names no schema but in its own name.
    let own = quote(&protect.table, '"');
    let trigger = |event: &str| {
        let table = format!("fencing_{event}_{}", protect.table);
        Protect { table, ..protect.clone() }.path('"')
    };
    let admit = |row: &str, token: &str| {
        format!("\n    INSERT INTO fencing_admit VALUES ({}, {token});", resource(protect, row))
    };
    let clear = format!("\n    UPDATE {own} SET fencing_token = NULL WHERE rowid = NEW.rowid;");
    let mut statements: Vec<String> = ["insert", "update", "delete"]
        .iter()
        .map(|event| format!("DROP TRIGGER IF EXISTS {}", trigger(event)))
        .collect();
    statements.push(format!(
        "CREATE TRIGGER {} AFTER INSERT ON {own} BEGIN{}{clear}\nEND",
        trigger("insert"),
        admit("NEW", "NEW.fencing_token"),
    ));
    statements.push(format!(
        "CREATE TRIGGER {} AFTER UPDATE ON {own}\n    \
         WHEN OLD.fencing_token IS NULL OR NEW.fencing_token IS NOT NULL\nBEGIN{}{}\n    \
         DELETE FROM {own} WHERE rowid = NEW.rowid AND fencing_token < 0;{clear}\nEND",
        trigger("update"),
        admit("OLD", "abs(NEW.fencing_token)"),
        admit("NEW", "abs(NEW.fencing_token)"),
    ));
    statements.push(format!(
        "CREATE TRIGGER {} AFTER DELETE ON {own}\n    \
         WHEN OLD.fencing_token IS NULL OR OLD.fencing_token >= 0\nBEGIN{}\nEND",
        trigger("delete"),
        admit("OLD", "NULL"),
    ));
    statements
}

fn resource(protect: &Protect, row: &str) -> String {
    match &protect.named {
        Named::Column { prefix, column } => {
            format!("{} || {row}.{}", quote(prefix, '\''), quote(column, '"'))
        }
        Named::Whole(resource) => quote(resource.as_str(), '\''),
    }
}

/// What the table lacks: the column, once. Fails where it has no row ids.
pub(in crate::sql) fn prepare<'a>(
    protect: &'a Protect,
    conn: &'a mut SqliteConnection,
) -> BoxFuture<'a, sqlx::Result<Vec<String>>> {
    Box::pin(async move {
        let table = protect.path('"');
        let rows = format!("SELECT rowid FROM {table} LIMIT 0");
        sqlx::query(AssertSqlSafe(rows)).execute(&mut *conn).await?;
        let there = "SELECT COUNT(*) FROM pragma_table_info($1, $2)
            WHERE name = 'fencing_token' COLLATE NOCASE";
        let there = sqlx::query_scalar::<_, i64>(there).bind(protect.table.as_str());
        let there = there.bind(protect.schema.as_deref().unwrap_or("main"));
        Ok(match there.fetch_one(conn).await? {
            0 => vec![format!("ALTER TABLE {table} ADD COLUMN fencing_token INTEGER")],
            _ => Vec::new(),
        })
    })
}
