use fencing_protocol::Resource;
use sqlx::{MySql, MySqlConnection};

use crate::database::protect::{Naming, Protect, ProtectStatements, Protected, TableName, Trigger};
use crate::database::{Dialect, Meaning, TextRow, meaning, quote};

const NOT_TRANSACTIONAL: &str = "
    SELECT CONCAT('its engine ', CAST(engine AS CHAR), ' has no transactions, and a write that is refused would stay. ',
        'ALTER TABLE ... ENGINE = InnoDB')
    FROM information_schema.tables JOIN information_schema.engines USING (engine)
    WHERE table_schema = COALESCE({schema}, DATABASE()) AND table_name = {table} AND transactions <> 'YES'";

/// Reads the triggers of the fence on a table: the name, and when it fires and what it does.
const TRIGGERS: &str = "
    SELECT CAST(trigger_name AS CHAR), CONCAT(CAST(action_timing AS CHAR), ' ', CAST(event_manipulation AS CHAR), ' ',
        TRIM(CAST(action_statement AS CHAR)))
    FROM information_schema.triggers
    WHERE event_object_schema = COALESCE({schema}, DATABASE()) AND event_object_table = {table}
        AND trigger_name LIKE 'fencing!_%' ESCAPE '!' AND action_statement LIKE '%fencing!_check(%' ESCAPE '!'
    ORDER BY 1";

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

/// Returns a table's triggers. AFTER sees the row that lands, with what the database and other triggers filled in.
fn triggers(protect: &Protect) -> Vec<Trigger> {
    let trigger = |(kind, event, row)| {
        let name = MySql::row_name(&protect.naming, row);
        let text = format!("AFTER {event} CALL fencing_check({name}, @fencing_token)");
        Trigger { name: trigger_name(kind, &protect.table.name), text }
    };
    let events = [
        ("insert", "INSERT", "NEW"),
        ("update", "UPDATE", "OLD"),
        ("move", "UPDATE", "NEW"),
        ("delete", "DELETE", "OLD"),
    ];
    // If all rows are of one resource none moves to another.
    let moves = matches!(protect.naming, Naming::Columns { .. });
    events.into_iter().filter(|(kind, ..)| moves || *kind != "move").map(trigger).collect()
}

/// Names a trigger. Those of a schema must differ, so a name that is cut ends in a hash.
fn trigger_name(event: &str, table: &str) -> String {
    let name = format!("fencing_{event}_{table}");
    if name.chars().count() <= MAX_NAME {
        return name;
    }
    let hash = table
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    name.chars().take(MAX_NAME - 17).collect::<String>() + &format!("_{hash:016x}")
}

/// Reads the naming of rows from the body of a trigger.
fn parse_naming(call: &str) -> Option<Naming> {
    let (_, arguments) = call.split_once("CALL fencing_check(")?;
    let (arguments, _) = arguments.rsplit_once(", @fencing_token")?;
    let text = |digits| String::from_utf8(hex::decode(digits).ok()?).ok();
    if let Some(digits) = arguments.strip_prefix("x'").and_then(|rest| rest.strip_suffix('\'')) {
        return Some(Naming::Whole(Resource::new(text(digits)?).ok()?));
    }
    let (digits, rest) = arguments.strip_prefix("CONCAT(x'")?.split_once('\'')?;
    Naming::of_expression(text(digits)?, rest, '`')
}

fn drop_trigger(table: &TableName, name: &str) -> String {
    format!("DROP TRIGGER IF EXISTS {}", table.beside(name).path('`'))
}

impl ProtectStatements for MySql {
    const UNPROTECTED: &'static str = "it is not protected, or you lack the right TRIGGER to see its triggers";

    /// A TIMESTAMP is read in the session's time zone.
    const SESSION_DEPENDENT: Option<&'static str> = Some(
        "SELECT CAST(column_type AS CHAR) FROM information_schema.columns
        WHERE table_schema = COALESCE({schema}, DATABASE()) AND table_name = {table} AND column_name = {column}
            AND data_type = 'timestamp'",
    );

    const STORED: Option<&'static str> = Some(
        "SELECT IF({schema} IS NULL, NULL, CAST(table_schema AS CHAR)), CAST(table_name AS CHAR)
        FROM information_schema.tables
        WHERE table_schema = COALESCE({schema}, DATABASE()) AND table_name = {table}
            AND (@@lower_case_table_names > 0 OR CAST(table_name AS BINARY) = CAST({table} AS BINARY))",
    );

    /// Reads the tables with fence triggers in a schema, or the session's: schema, name, whether the name is enough.
    const TABLES: &'static str = "
        SELECT DISTINCT CAST(event_object_schema AS CHAR), CAST(event_object_table AS CHAR),
            event_object_schema <=> DATABASE()
        FROM information_schema.triggers
        WHERE event_object_schema = COALESCE({schema}, DATABASE()) AND trigger_name LIKE 'fencing!_%' ESCAPE '!'
            AND action_statement LIKE '%fencing!_check(%' ESCAPE '!'
        ORDER BY 1, 2";

    /// A trigger finds the marks in the schema of its table.
    async fn home(_: &mut MySqlConnection, table: &TableName) -> sqlx::Result<Option<String>> {
        Ok(table.schema.clone())
    }

    fn row_name(naming: &Naming, row: &str) -> String {
        let text_of = |column: &str| format!("CONVERT({row}.{} USING utf8mb4) COLLATE utf8mb4_bin", quote(column, '`'));
        let name = naming.expression(|text| format!("x'{}'", hex::encode(text)), text_of, ", ");
        if let Naming::Columns { .. } = naming { format!("CONCAT({name})") } else { name }
    }

    /// Makes one statement per trigger, so that no client has to change its delimiter.
    fn protecting(protect: &Protect) -> Vec<String> {
        let table = &protect.table;
        let on = format!(" ON {} FOR EACH ROW\n    CALL", table.path('`'));
        let statements = |Trigger { name, text, .. }| {
            let create = text.replacen(" CALL", &on, 1);
            [drop_trigger(table, &name), format!("CREATE TRIGGER {} {create}", table.beside(name).path('`'))]
        };
        triggers(protect).into_iter().flat_map(statements).collect()
    }

    async fn protect(conn: &mut MySqlConnection, protect: &Protect) -> sqlx::Result<Option<String>> {
        let table = &protect.table;
        let engine = Self::first(conn, Self::of_table(NOT_TRANSACTIONAL, table)).await?;
        if engine.is_some() {
            return Ok(engine);
        }
        // Triggers of an earlier name of the table.
        let found = Trigger::list::<MySql>(conn, Self::of_table(TRIGGERS, table)).await?;
        let expected = triggers(protect);
        let others = found.iter().filter(|found| expected.iter().all(|own| own.name != found.name));
        let others = others.map(|other| drop_trigger(table, &other.name));
        // Keeps others from writing between two statements. A user without the right to lock tables goes without.
        match Self::execute(conn, format!("LOCK TABLES {} WRITE", table.path('`'))).await {
            Err(error) if meaning(&error) != Some(Meaning::Denied) => return Err(error),
            _ => {}
        }
        for statement in Self::protecting(protect).into_iter().chain(others) {
            Self::execute(conn, statement).await?;
        }
        Self::execute(conn, "UNLOCK TABLES".into()).await.map(|()| None)
    }

    async fn inspect(
        conn: &mut MySqlConnection,
        mut protect: Protect,
        row: &TextRow,
    ) -> sqlx::Result<Option<Protected>> {
        let table = protect.table.clone();
        let triggers = Trigger::list::<MySql>(conn, Self::of_table(TRIGGERS, &table)).await?;
        if let Some(naming) = triggers.iter().find_map(|own| parse_naming(&own.text)) {
            protect.naming = naming;
        }
        let mut protected = Protected::new(protect, row.is_true(2));
        protected.faults = Trigger::faults(&self::triggers(&protected.protect), &triggers);
        protected.faults.extend(Self::column(conn, Self::of_table(NOT_TRANSACTIONAL, &table)).await?);
        protected.unseen = Self::column(conn, Self::of_table(CASCADING, &table)).await?;
        protected.unseen.insert(0, DDL.to_owned());
        protected.drops = triggers.iter().map(|own| drop_trigger(&table, &own.name)).collect();
        Ok(Some(protected))
    }
}
