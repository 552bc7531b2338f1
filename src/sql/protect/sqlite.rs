use super::{Named, Protect, quote};

/// Every writer presents its token in the column `fencing_token`. The trigger clears it when
/// the write is admitted, so at rest it is NULL, and a write that does not mention it
/// presents nothing. That the trigger clears it does not count as a write. GLOB: a token may
/// stand with its resource, in a text, and a minus before either deletes the row.
///
/// AFTER: before an insert, a key that the database generates is not known.
pub(super) fn statements(protect: &Protect) -> Vec<String> {
    // A trigger names no schema but in its own name.
    let own = quote(&protect.table, '"');
    let trigger = |event: &str| {
        let table = format!("fencing_{event}_{}", protect.table);
        Protect { table, ..protect.clone() }.path('"')
    };
    let admit = |row: &str, token: &str| {
        format!("\n    INSERT INTO fencing_check VALUES ({}, {token});", resource(protect, row))
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
         DELETE FROM {own} WHERE rowid = NEW.rowid AND fencing_token GLOB '-*';{clear}\nEND",
        trigger("update"),
        admit("OLD", "NEW.fencing_token"),
        admit("NEW", "NEW.fencing_token"),
    ));
    statements.push(format!(
        "CREATE TRIGGER {} AFTER DELETE ON {own}\n    \
         WHEN OLD.fencing_token IS NULL OR OLD.fencing_token NOT GLOB '-*'\nBEGIN{}\nEND",
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
