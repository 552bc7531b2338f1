use fencing_protocol::Resource;
use sqlx::{PgConnection, Postgres};

use crate::database::protect::{Naming, Protect, ProtectStatements, Protected, TableName};
use crate::database::{Dialect, TextRow, quote};

/// Reads the two triggers of a table and of all below it, partitions and children: the schema and name of the table,
/// whether it gets the trigger for rows from its table, whether there may be more below it; the trigger, its arguments,
/// and what is wrong with it. The triggers of all tables must equal those of the first. `tgtype` 29: AFTER, each row,
/// three events; 34: BEFORE TRUNCATE. `home`: the schema where the session finds the marks.
const TREE: &str = "
    WITH RECURSIVE home AS (
        SELECT pg_namespace.oid AS id, nspname
        FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (name, nr)
            JOIN pg_namespace ON nspname = path.name JOIN pg_class ON relnamespace = pg_namespace.oid
        WHERE relname = 'fencing_marks' ORDER BY nr LIMIT 1
    ), tree AS (
        SELECT to_regclass({path})::oid AS id
        UNION
        SELECT inhrelid FROM tree, pg_inherits WHERE inhparent = id
    ), first AS (
        SELECT tgargs AS args, substring(tgargs FOR position(decode('00', 'hex') IN tgargs)) AS mode
        FROM pg_trigger WHERE tgrelid = to_regclass({path}) AND tgname = 'fencing_protect'
    ), kind (name, type, args) AS (
        SELECT 'fencing_protect', 29, (SELECT args FROM first) UNION ALL
        SELECT 'fencing_protect_truncate', 34, coalesce((SELECT mode FROM first), decode('72656675736500', 'hex'))
    )
    SELECT own.nspname, relname, relispartition AND id <> to_regclass({path}), relkind = 'p' OR relhassubclass,
        kind.name, encode(tgargs, 'hex'), CASE
        WHEN tgname IS NULL THEN 'is missing: protect the table again'
        WHEN tgenabled NOT IN ('O', 'A') THEN 'is disabled: protect the table again'
        WHEN tgtype <> kind.type OR proname <> tgname OR tgqual IS NOT NULL OR tgattr::text <> '' OR tgdeferrable
            OR tgargs IS DISTINCT FROM kind.args
            THEN 'is not the one that `fencing db protect` creates: protect the table again'
        WHEN pronamespace IS DISTINCT FROM (SELECT id FROM home)
            THEN format('calls %I.%I(), and the session finds the marks in %s', called.nspname, proname,
                coalesce((SELECT nspname::text FROM home), 'no schema of its search_path'))
        END
    FROM tree CROSS JOIN kind
        JOIN pg_class ON pg_class.oid = id JOIN pg_namespace AS own ON own.oid = relnamespace
        LEFT JOIN pg_trigger ON tgrelid = id AND tgname = kind.name
        LEFT JOIN pg_proc ON pg_proc.oid = tgfoid LEFT JOIN pg_namespace AS called ON called.oid = pronamespace
    ORDER BY id <> to_regclass({path}), own.nspname, relname, kind.name";

/// Reads the schema of the function that a table's trigger calls, if a fence is there.
const HOME: &str = "
    SELECT home.nspname
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        JOIN pg_namespace AS own ON own.oid = relnamespace
        JOIN pg_proc ON pg_proc.oid = tgfoid JOIN pg_namespace AS home ON home.oid = pronamespace
    WHERE own.nspname = {schema} AND relname = {table} AND tgname = 'fencing_protect' AND EXISTS (
        SELECT FROM pg_proc AS hold
        WHERE hold.pronamespace = home.oid AND hold.proname = 'fencing_admit')";

const ROWS: &str = "fencing_protect";
const TRUNCATE: &str = "fencing_protect_truncate";

const SESSIONS: &str = "sessions in the replica role (session_replication_role = replica)";
const LATER: &str = "TRUNCATE of a partition, and every write to a child by INHERITS, that was added \
    after `fencing db protect`: protect the table again";

fn drop_trigger(table: &TableName, trigger: &str) -> String {
    format!("DROP TRIGGER IF EXISTS {trigger} ON {}", table.path('"'))
}

/// AFTER sees the row that lands: a trigger that fires later, or a generated column, changes what BEFORE sees.
fn create_trigger(table: &TableName, trigger: &str, protect: &Protect) -> String {
    let (table, mode) = (table.path('"'), mode(protect.shadow));
    if trigger == TRUNCATE {
        return format!(
            "CREATE TRIGGER {trigger} BEFORE TRUNCATE ON {table}\n    \
             FOR EACH STATEMENT EXECUTE FUNCTION {trigger}('{mode}')"
        );
    }
    let names: Vec<_> = write_arguments(&protect.naming).iter().map(|text| literal(text)).collect();
    format!(
        "CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON {table}\n    \
         FOR EACH ROW EXECUTE FUNCTION {trigger}('{mode}', {})",
        names.join(", ")
    )
}

/// Writes a text without escapes where it needs none: an argument of a trigger is a plain text.
fn literal(text: &str) -> String {
    if text.contains('\\') { format!("E{}", quote(&text.replace('\\', "\\\\"), '\'')) } else { quote(text, '\'') }
}

/// Returns the first argument of a trigger: what it does where the fence refuses.
fn mode(shadow: bool) -> &'static str {
    if shadow { "warn" } else { "refuse" }
}

/// Lists the first column, the text before it, and further columns; or nothing and the whole name.
fn write_arguments(naming: &Naming) -> Vec<String> {
    match naming {
        Naming::Columns { prefix, columns } => {
            let mut arguments = columns.clone();
            arguments.insert(1.min(arguments.len()), prefix.clone());
            arguments
        }
        Naming::Whole(resource) => vec![String::new(), resource.to_string()],
    }
}

/// Reads the arguments back: whether it is in shadow mode, and how the rows are named. Each ends in a NUL.
fn read_arguments(digits: &str) -> Option<(bool, Naming)> {
    let text = String::from_utf8(hex::decode(digits).ok()?).ok()?;
    let mut arguments = text.strip_suffix('\0')?.split('\0').map(str::to_owned);
    let (mode, first, prefix) = (arguments.next()?, arguments.next()?, arguments.next()?);
    let naming = match first.is_empty() {
        true => Naming::Whole(Resource::new(prefix).ok()?),
        false => Naming::Columns { prefix, columns: [first].into_iter().chain(arguments).collect() },
    };
    Some((mode == self::mode(true), naming))
}

/// A trigger of a table of the tree, which may be missing.
struct TreeTrigger {
    table: TableName,
    /// A partition gets the trigger for rows from its table.
    is_below: bool,
    may_grow: bool,
    name: String,
    arguments: Option<String>,
    fault: Option<String>,
}

async fn read_tree(conn: &mut PgConnection, table: &TableName) -> sqlx::Result<Vec<TreeTrigger>> {
    let trigger = |row: &TextRow| {
        let table = TableName { schema: row.owned(0), name: row.owned(1)? };
        let (is_below, may_grow) = (row.is_true(2), row.is_true(3));
        let (name, arguments, fault) = (row.owned(4)?, row.owned(5), row.owned(6));
        Some(TreeTrigger { table, is_below, may_grow, name, arguments, fault })
    };
    Ok(Postgres::texts(conn, Postgres::of_table(TREE, table)).await?.iter().filter_map(trigger).collect())
}

fn list_faults(tree: &[TreeTrigger]) -> impl Iterator<Item = String> {
    tree.iter().filter_map(|TreeTrigger { table, name, fault, .. }| {
        Some(format!("the trigger {name} on {} {}", table.name, fault.as_ref()?))
    })
}

impl ProtectStatements for Postgres {
    const HAS_SHADOW: bool = true;

    /// Reads the type of a column where its text is not the same in every session. A domain
    /// counts as what it is made of. A type's output that is not immutable depends on settings, or
    /// on the search path; these others do so as well, although they are marked immutable.
    const SESSION_DEPENDENT: Option<&'static str> = Some(
        "WITH RECURSIVE own AS (
            SELECT atttypid AS type, format_type(atttypid, atttypmod) AS name
            FROM pg_attribute WHERE attrelid = to_regclass({path}) AND attname = {column}
        ), made_of AS (
            SELECT type FROM own
            UNION ALL
            SELECT typbasetype FROM made_of, pg_type WHERE oid = type AND typtype = 'd'
        )
        SELECT name FROM own, made_of, pg_type, pg_proc AS output
        WHERE pg_type.oid = made_of.type AND output.oid = typoutput AND typtype NOT IN ('d', 'e')
            AND (provolatile <> 'i' OR typcategory = 'G'
                OR typname IN ('bytea', 'interval', 'float4', 'float8'))",
    );

    /// Reads the tables that have one of the triggers of their own: schema, name, whether the name alone is
    /// enough. A partition has its table's. Unless `{every}` fence counts, a table that the search path does not
    /// lead to is omitted if its triggers belong to the fence of a schema off the path.
    const TABLES: &'static str = "
        SELECT DISTINCT nspname, relname, pg_table_is_visible(pg_class.oid)
        FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid JOIN pg_class ON pg_class.oid = tgrelid
            JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE proname ~ '^fencing_protect(_truncate)?$' AND prorettype = 'trigger'::regtype
            AND (NOT relispartition OR proname !~ 'truncate' AND tgparentid = 0)
            AND ({every} OR pg_table_is_visible(pg_class.oid) OR NOT EXISTS (
                SELECT FROM pg_class AS marks JOIN pg_namespace AS other ON other.oid = marks.relnamespace
                WHERE marks.relname = 'fencing_marks' AND other.oid = pronamespace
                    AND other.nspname <> ALL (current_schemas(false))))
        ORDER BY 1, 2";

    async fn home(conn: &mut PgConnection, table: &TableName) -> sqlx::Result<Option<String>> {
        Self::first(conn, Self::of_table(HOME, table)).await
    }

    fn row_name(naming: &Naming, row: &str) -> String {
        let text_of = |column: &str| format!("{row}.{}::text", quote(column, '"'));
        naming.expression(literal, text_of, " || ")
    }

    fn protecting(protect: &Protect) -> Vec<String> {
        let drops = [ROWS, TRUNCATE].map(|trigger| drop_trigger(&protect.table, trigger));
        let creates = [ROWS, TRUNCATE].map(|trigger| create_trigger(&protect.table, trigger, protect));
        [drops, creates].concat()
    }

    async fn protect(conn: &mut PgConnection, protect: &Protect) -> sqlx::Result<Option<String>> {
        let found = read_tree(conn, &protect.table).await?;
        // The table's own first: those of its partitions depend on it.
        let drops = found.iter().map(|own| drop_trigger(&own.table, &own.name));
        let own = found.iter().filter(|own| own.name == TRUNCATE || !own.is_below);
        let creates = own.map(|own| create_trigger(&own.table, &own.name, protect));
        for statement in drops.chain(creates) {
            Self::execute(conn, statement).await?;
        }
        // The search path may lead to the functions of another fence.
        let fault = list_faults(&read_tree(conn, &protect.table).await?).next();
        Ok(fault.map(|fault| format!("{fault}: set a search_path on which the schema of the marks comes first")))
    }

    async fn inspect(conn: &mut PgConnection, mut protect: Protect, row: &TextRow) -> sqlx::Result<Option<Protected>> {
        let tree = read_tree(conn, &protect.table).await?;
        if let Some((shadow, naming)) = tree.first().and_then(|own| own.arguments.as_deref()).and_then(read_arguments) {
            (protect.shadow, protect.naming) = (shadow, naming);
        }
        let mut protected = Protected::new(protect, row.is_true(2));
        protected.faults = list_faults(&tree).collect();
        protected.unseen = vec![SESSIONS.to_owned()];
        protected.unseen.extend(tree.iter().any(|own| own.may_grow).then(|| LATER.to_owned()));
        protected.drops = tree.iter().map(|own| drop_trigger(&own.table, &own.name)).collect();
        Ok(Some(protected))
    }
}
