use fencing_protocol::Resource;

use super::error::ProtectError;
use super::naming::Naming;
use super::protected::{Protected, by_table, trigger_faults};
use super::target::Protect;
use crate::database::quoted::{fill, unhex};
use crate::database::{Database, Dialect};
use crate::sql::error::is_denied;
use crate::sql::migrate::unfit;

/// A TIMESTAMP is read in the session's time zone.
pub(super) const SESSION_DEPENDENT: &str = "
    SELECT CAST(column_type AS CHAR) FROM information_schema.columns
    WHERE table_schema = COALESCE({schema}, DATABASE()) AND table_name = {table} AND column_name = {column}
        AND data_type = 'timestamp'";

/// Says so if the table's engine has no transactions.
const NOT_TRANSACTIONAL: &str = "
    SELECT CONCAT('its engine ', CAST(engine AS CHAR), ' has no transactions, and a write that is refused would stay. ',
        'ALTER TABLE ... ENGINE = InnoDB')
    FROM information_schema.tables JOIN information_schema.engines USING (engine)
    WHERE table_schema = COALESCE({schema}, DATABASE()) AND table_name = {table} AND transactions <> 'YES'";

/// Reads the triggers of the fence in a schema, or in the session's: schema and name of the table, whether its name alone is
/// enough, the trigger's name, and when it fires and what it does.
const FOUND: &str = "
    SELECT CAST(event_object_schema AS CHAR), CAST(event_object_table AS CHAR),
        IF(event_object_schema <=> DATABASE(), 'true', 'false'), CAST(trigger_name AS CHAR),
        CONCAT(CAST(action_timing AS CHAR), ' ', CAST(event_manipulation AS CHAR), ' ',
            TRIM(CAST(action_statement AS CHAR)))
    FROM information_schema.triggers
    WHERE event_object_schema = COALESCE({schema}, DATABASE()) AND trigger_name LIKE 'fencing!_%' ESCAPE '!'
        AND action_statement LIKE '%fencing!_check(%' ESCAPE '!'
    ORDER BY 1, 2, 4";

/// Names the foreign keys that change rows of a table by themselves.
const CASCADING: &str = "
    SELECT CONCAT('what the foreign key ', CAST(constraint_name AS CHAR), ' changes along with ',
        CAST(referenced_table_name AS CHAR))
    FROM information_schema.referential_constraints
    WHERE constraint_schema = {schema} AND table_name = {table} AND NOT (
        update_rule IN ('RESTRICT', 'NO ACTION') AND delete_rule IN ('RESTRICT', 'NO ACTION'))";

const DDL: &str = "TRUNCATE, and DDL that drops, truncates or exchanges a partition or renames \
    another table into its place, as tools for online schema changes do";

const MAX_NAME: usize = 64;

/// Returns the name of each trigger, its event and what it does. AFTER sees the row that lands, with what the database
/// and other triggers have filled in.
fn triggers(protect: &Protect) -> Vec<(String, &'static str, String)> {
    let trigger = |(kind, event, row)| {
        let name = protect.naming.expression(Dialect::MySql, row);
        let call = format!("CALL fencing_check({name}, @fencing_token)");
        (trigger(kind, &protect.table), event, call)
    };
    let events = [
        ("insert", "INSERT", "NEW"),
        ("update", "UPDATE", "OLD"),
        ("move", "UPDATE", "NEW"),
        ("delete", "DELETE", "OLD"),
    ];
    // Where all rows are of one resource none moves to another.
    let moves = matches!(protect.naming, Naming::Columns { .. });
    events.into_iter().filter(|(kind, ..)| moves || *kind != "move").map(trigger).collect()
}

/// Makes one statement per trigger, so that no client has to change its delimiter.
pub(super) fn statements(protect: &Protect) -> Vec<String> {
    let mut statements = Vec::new();
    for (name, event, call) in triggers(protect) {
        statements.push(drop_trigger(protect.schema.as_deref(), &name));
        let trigger = Protect { table: name, ..protect.clone() }.path('`');
        let table = protect.path('`');
        statements.push(format!(
            "CREATE TRIGGER {trigger} AFTER {event} ON {table} FOR EACH ROW\n    {call}"
        ));
    }
    statements
}

fn drop_trigger(schema: Option<&str>, name: &str) -> String {
    let trigger = Protect::unknown(schema.map(str::to_owned), name.to_owned()).path('`');
    format!("DROP TRIGGER IF EXISTS {trigger}")
}

/// Names a trigger. Those of a schema must differ, so a name that is cut ends in a hash.
fn trigger(event: &str, table: &str) -> String {
    let name = format!("fencing_{event}_{table}");
    if name.chars().count() <= MAX_NAME {
        return name;
    }
    let hash = table.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    name.chars().take(MAX_NAME - 17).collect::<String>() + &format!("_{hash:016x}")
}

/// Reads the naming of rows from the body of a trigger.
fn naming_of(call: &str) -> Option<Naming> {
    let (_, arguments) = call.split_once("CALL fencing_check(")?;
    let (arguments, _) = arguments.rsplit_once(", @fencing_token")?;
    let text = |digits| String::from_utf8(unhex(digits)?).ok();
    if let Some(digits) = arguments.strip_prefix("x'").and_then(|rest| rest.strip_suffix('\'')) {
        return Some(Naming::Whole(Resource::new(text(digits)?).ok()?));
    }
    let (digits, rest) = arguments.strip_prefix("CONCAT(x'")?.split_once('\'')?;
    Naming::of_expression(text(digits)?, rest, '`')
}

pub(super) async fn apply<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> Result<(), ProtectError> {
    if let Some(why) = DB::first_text(conn, protect.of_table::<DB>(NOT_TRANSACTIONAL)).await? {
        return Err(protect.unguardable(why));
    }
    if let Some(why) = unfit::<DB>(conn, protect.schema.as_deref()).await?.into_iter().next() {
        return Err(protect.unguardable(why));
    }
    // Triggers of an earlier name of the table.
    let expected = triggers(protect);
    let found = DB::texts(conn, protect.of_table::<DB>(FOUND)).await?;
    let names = found.iter().filter(|row| row.get(1) == Some(&Some(protect.table.clone())));
    let names = names.filter_map(|row| row.get(3)?.as_deref());
    let others = names.filter(|name| expected.iter().all(|(other, ..)| other != name));
    let others = others.map(|name| drop_trigger(protect.schema.as_deref(), name));
    let statements: Vec<_> = statements(protect).into_iter().chain(others).collect();

    // Keeps others from writing between two statements. A user without the right to lock tables goes without.
    let lock = DB::execute(conn, format!("LOCK TABLES {} WRITE", protect.path('`'))).await;
    if let Err(error) = lock
        && !is_denied(&error)
    {
        return Err(error.into());
    }
    for statement in statements {
        DB::execute(conn, statement).await?;
    }
    DB::execute(conn, "UNLOCK TABLES".into()).await?;
    Ok(())
}

pub(super) async fn found<DB: Database>(
    conn: &mut DB::Connection,
    schema: Option<&str>,
) -> sqlx::Result<Vec<Protected>> {
    let mut found = Vec::new();
    let rows =
        DB::texts(conn, fill(FOUND, &[("{schema}", &DB::DIALECT.catalogue(schema))])).await?;
    for (mut table, is_visible, triggers) in by_table(rows) {
        if let Some(naming) = triggers.iter().find_map(|(_, call)| naming_of(call)) {
            table.naming = naming;
        }
        let mut unseen = vec![DDL.to_owned()];
        let cascading = DB::texts(conn, table.of_table::<DB>(CASCADING)).await?;
        unseen.extend(cascading.into_iter().flatten().flatten());
        let expected = self::triggers(&table).into_iter();
        let expected: Vec<_> =
            expected.map(|(name, event, call)| (name, format!("AFTER {event} {call}"))).collect();
        let mut faults = trigger_faults(&expected, &triggers);
        faults.extend(DB::first_text(conn, table.of_table::<DB>(NOT_TRANSACTIONAL)).await?);
        let schema = table.schema.as_deref();
        let drops = triggers.iter().map(|(name, _)| drop_trigger(schema, name)).collect();
        found.push(Protected::new(table, is_visible, faults, unseen, drops));
    }
    Ok(found)
}
