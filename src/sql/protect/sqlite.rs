use super::{Named, Protect, ProtectError, quote};
use crate::database::Database;

/// The events that have a trigger each, in the order in which the triggers are created: the
/// newest one fires first, so that a token is cleared last.
const EVENTS: [&str; 5] = ["inserted", "updated", "insert", "update", "delete"];

/// Every writer presents its token in the column `fencing_token`. The last trigger clears it, so
/// at rest it is NULL, and a write that does not mention it presents nothing.
///
/// Clearing is an UPDATE, which fires the triggers of the application. What they write in turn
/// is part of the same write. So is what they wrote before, where the row still has the token.
/// While a token is cleared it stands in `fencing_presented`. No trigger fires inside itself,
/// and so none that checks writes to the table.
///
/// AFTER: before an insert, a key that the database generates is not known.
pub(super) fn statements(protect: &Protect, rowid: &str) -> Vec<String> {
    // A trigger names no schema but in its own name.
    let own = quote(&protect.table, '"');
    let trigger = |event: &str| {
        let table = format!("fencing_{event}_{}", protect.table);
        Protect { table, ..protect.clone() }.path('"')
    };
    let (old, new) = (resource(protect, "OLD"), resource(protect, "NEW"));
    let admit = |name: &str, token: &str| {
        format!(
            "\n    INSERT INTO fencing_admit VALUES ({name},\n        \
             coalesce({token}, (SELECT token FROM fencing_presented)));"
        )
    };
    let clear = format!(
        "\n    INSERT INTO fencing_presented VALUES (abs(NEW.fencing_token));\n    \
         DELETE FROM {own} WHERE {rowid} = NEW.{rowid} AND fencing_token < 0;\n    \
         UPDATE {own} SET fencing_token = NULL\n        \
         WHERE {rowid} = NEW.{rowid} AND fencing_token IS NOT NULL;\n    \
         DELETE FROM fencing_presented;"
    );
    let body = |event: &str| match event {
        "inserted" => {
            format!("INSERT ON {own}\n    WHEN NEW.fencing_token IS NOT NULL BEGIN{clear}")
        }
        "updated" => format!(
            "UPDATE ON {own}\n    \
             WHEN OLD.fencing_token IS NULL AND NEW.fencing_token IS NOT NULL BEGIN{clear}"
        ),
        "insert" => format!("INSERT ON {own} BEGIN{}", admit(&new, "NEW.fencing_token")),
        "update" => format!(
            "UPDATE ON {own}\n    \
             WHEN OLD.fencing_token IS NULL OR NEW.fencing_token IS NOT NULL\n        \
             OR {old} IS NOT {new}\nBEGIN{}{}",
            admit(&old, "abs(NEW.fencing_token)"),
            admit(&new, "abs(NEW.fencing_token)")
        ),
        _ => format!("DELETE ON {own} BEGIN{}", admit(&old, "abs(OLD.fencing_token)")),
    };
    let presented = Protect { table: "fencing_presented".into(), ..protect.clone() }.path('"');
    let mut statements = vec![format!("CREATE TABLE IF NOT EXISTS {presented} (token INTEGER)")];
    for event in EVENTS {
        statements.push(format!("DROP TRIGGER IF EXISTS {}", trigger(event)));
    }
    for event in EVENTS {
        let (trigger, body) = (trigger(event), body(event));
        statements.push(format!("CREATE TRIGGER {trigger} AFTER {body}\nEND"));
    }
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

/// Protects the table, and creates the application's triggers on it anew, in their order: the
/// token has to be there until the last of them has fired.
pub(super) async fn apply<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> Result<(), ProtectError> {
    let table = protect.path('"');
    let schema = quote(protect.schema.as_deref().unwrap_or("main"), '"');
    if protect.check::<DB>(conn, Some("fencing_token")).await.is_err() {
        let add = format!("ALTER TABLE {table} ADD COLUMN fencing_token INTEGER");
        DB::execute(conn, add).await?;
    }
    for statement in statements(protect, "rowid") {
        DB::execute(conn, statement).await?;
    }
    let others = format!(
        "SELECT name, sql FROM {schema}.sqlite_schema
        WHERE type = 'trigger' AND lower(tbl_name) = lower(?1)
            AND name NOT LIKE 'fencing!_%' ESCAPE '!' ORDER BY rowid"
    );
    for other in DB::texts(conn, others, vec![Some(protect.table.clone())]).await? {
        let [Some(name), Some(sql)] = &other[..] else { continue };
        let Some(rest) = sql.strip_prefix("CREATE TRIGGER ") else { continue };
        DB::execute(conn, format!("DROP TRIGGER {schema}.{}", quote(name, '"'))).await?;
        DB::execute(conn, format!("CREATE TRIGGER {schema}.{rest}")).await?;
    }
    Ok(())
}
