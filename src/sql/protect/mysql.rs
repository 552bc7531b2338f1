use super::{Named, Protect, ProtectError, hex, quote};
use crate::database::Database;

/// A TIMESTAMP is read in the session's time zone.
pub(super) const SESSION_DEPENDENT: &str = "
    SELECT CAST(column_type AS CHAR) FROM information_schema.columns
    WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? AND column_name = ?
        AND data_type = 'timestamp'";

/// Reads the engine of a table if it has no transactions: what a trigger refuses would stay.
const NOT_TRANSACTIONAL: &str = "
    SELECT CAST(engine AS CHAR)
    FROM information_schema.tables JOIN information_schema.engines USING (engine)
    WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? AND transactions <> 'YES'";

/// The longest name of a trigger.
const LONGEST: usize = 64;

/// AFTER sees the row that lands, with what the database and other triggers have filled in.
///
/// Makes one statement per trigger, so that no client has to change its delimiter.
pub(super) fn statements(protect: &Protect) -> Vec<String> {
    let mut statements = Vec::new();
    for (name, event, row) in [
        ("insert", "INSERT", "NEW"),
        ("update", "UPDATE", "OLD"),
        ("move", "UPDATE", "NEW"),
        ("delete", "DELETE", "OLD"),
    ] {
        let trigger = Protect { table: trigger(name, &protect.table), ..protect.clone() };
        let trigger = trigger.path('`');
        statements.push(format!("DROP TRIGGER IF EXISTS {trigger}"));
        statements.push(format!(
            "CREATE TRIGGER {trigger} AFTER {event} ON {} FOR EACH ROW\n    \
             CALL fencing_check({}, @fencing_token)",
            protect.path('`'),
            resource(protect, row)
        ));
    }
    statements
}

/// Refuses a table whose rows can't be rolled back.
pub(super) async fn check_engine<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> Result<(), ProtectError> {
    let table = vec![protect.schema.clone(), Some(protect.table.clone())];
    let engine = DB::texts(conn, NOT_TRANSACTIONAL.into(), table).await?;
    match engine.into_iter().flatten().flatten().next() {
        None => Ok(()),
        Some(engine) => Err(protect.unguardable(format!(
            "its engine {engine} has no transactions, and a write that is refused would stay. \
             ALTER TABLE ... ENGINE = InnoDB"
        ))),
    }
}

/// Names a trigger. Those of a schema must differ, so a name that is cut ends in a hash.
fn trigger(event: &str, table: &str) -> String {
    let name = format!("fencing_{event}_{table}");
    if name.chars().count() <= LONGEST {
        return name;
    }
    let hash = table.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    name.chars().take(LONGEST - 17).collect::<String>() + &format!("_{hash:016x}")
}

/// Names the resource, in UTF-8 whatever the column's character set is.
fn resource(protect: &Protect, row: &str) -> String {
    match &protect.named {
        Named::Column { prefix, column } => {
            let column = quote(column, '`');
            format!("CONCAT(x'{}', CONVERT({row}.{column} USING utf8mb4))", hex(prefix))
        }
        Named::Whole(resource) => format!("x'{}'", hex(resource.as_str())),
    }
}
