use fencing_protocol::Resource;

use super::error::ProtectError;
use super::naming::Naming;
use super::protected::{Protected, trigger_faults};
use super::target::Protect;
use crate::database::Database;
use crate::database::quoted::{fill, hex, literal, unhex};

/// Reads the type of a column where its text is not the same in every session. A domain
/// counts as what it is made of. A type's output that is not immutable depends on settings, or
/// on the search path; these others do so as well, although they are marked immutable.
pub(super) const SESSION_DEPENDENT: &str = "
    WITH RECURSIVE own AS (
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
            OR typname IN ('bytea', 'interval', 'float4', 'float8'))";

/// Reads the table and all below it, partitions and children: schema, name, whether it is a
/// partition, whether there may be more below it, and the arguments of the two triggers, or
/// `!` and what is wrong with them. 29: AFTER, each row, three events. 34: BEFORE TRUNCATE.
/// `home`: the schema where the session finds the marks.
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
    ), state AS (
        SELECT tgrelid, tgname, CASE
            WHEN tgenabled NOT IN ('O', 'A') THEN '!is disabled'
            WHEN tgtype <> CASE tgname WHEN 'fencing_protect' THEN 29 ELSE 34 END
                OR proname <> tgname OR tgqual IS NOT NULL OR tgattr::text <> '' OR tgdeferrable
                THEN '!is not the one that `fencing protect` creates'
            WHEN pronamespace IS DISTINCT FROM (SELECT id FROM home)
                THEN format('!calls %I.%I(), and the session finds the marks in %s', nspname, proname,
                    coalesce((SELECT nspname::text FROM home), 'no schema of its search_path'))
            ELSE encode(tgargs, 'hex')
            END AS args
        FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
            JOIN pg_namespace ON pg_namespace.oid = pronamespace
    )
    SELECT nspname::text, relname::text, relispartition::text,
        (relkind = 'p' OR relhassubclass)::text,
        (SELECT args FROM state WHERE tgrelid = id AND tgname = 'fencing_protect'),
        (SELECT args FROM state WHERE tgrelid = id AND tgname = 'fencing_protect_truncate')
    FROM tree JOIN pg_class ON pg_class.oid = id JOIN pg_namespace ON pg_namespace.oid = relnamespace
    ORDER BY id <> to_regclass({path}), nspname, relname";

/// Reads the tables that have one of the triggers of their own: schema, name, whether the name
/// alone is enough. A partition has its table's. Unless `{every}` fence counts, a table that the search path
/// does not lead to is left out if its triggers belong to the fence of a schema off the path.
const FOUND: &str = "
    SELECT DISTINCT nspname::text, relname::text, pg_table_is_visible(pg_class.oid)::text
    FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid JOIN pg_class ON pg_class.oid = tgrelid
        JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE proname ~ '^fencing_protect(_truncate)?$' AND prorettype = 'trigger'::regtype
        AND (NOT relispartition OR proname !~ 'truncate' AND tgparentid = 0)
        AND ({every} OR pg_table_is_visible(pg_class.oid) OR NOT EXISTS (
            SELECT FROM pg_class AS marks JOIN pg_namespace AS other ON other.oid = marks.relnamespace
            WHERE marks.relname = 'fencing_marks' AND other.oid = pronamespace
                AND other.nspname <> ALL (current_schemas(false))))
    ORDER BY 1, 2";

/// Reads the schema of the function that a table's trigger calls, if a fence is there.
pub(super) const HOME: &str = "
    SELECT home.nspname::text
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        JOIN pg_namespace AS own ON own.oid = relnamespace
        JOIN pg_proc ON pg_proc.oid = tgfoid JOIN pg_namespace AS home ON home.oid = pronamespace
    WHERE own.nspname = {schema} AND relname = {table} AND tgname = 'fencing_protect' AND EXISTS (
        SELECT FROM pg_proc AS hold
        WHERE hold.pronamespace = home.oid AND hold.proname = 'fencing_admit')";

const SESSIONS: &str = "sessions in the replica role (session_replication_role = replica)";
const LATER: &str = "TRUNCATE of a partition, and every write to a child by INHERITS, that was added \
    after `fencing protect`: protect the table again";

/// Protects this one table, or protects it again.
pub(super) fn statements(protect: &Protect) -> Vec<String> {
    [drops(protect), creates(protect, false)].concat()
}

fn drops(protect: &Protect) -> Vec<String> {
    let table = protect.path('"');
    ["fencing_protect", "fencing_protect_truncate"]
        .iter()
        .map(|trigger| format!("DROP TRIGGER IF EXISTS {trigger} ON {table}"))
        .collect()
}

/// AFTER sees the row that lands: a trigger that fires later, or a generated column, changes what
/// BEFORE sees. A partition gets the trigger for rows from its table.
fn creates(protect: &Protect, is_partition: bool) -> Vec<String> {
    let table = protect.path('"');
    let names: Vec<_> = arguments(&protect.naming).iter().map(|text| literal(text)).collect();
    let mode = mode(protect.shadow);
    let rows = format!(
        "CREATE TRIGGER fencing_protect AFTER INSERT OR UPDATE OR DELETE ON {table}\n    \
         FOR EACH ROW EXECUTE FUNCTION fencing_protect('{mode}', {})",
        names.join(", ")
    );
    let truncate = format!(
        "CREATE TRIGGER fencing_protect_truncate BEFORE TRUNCATE ON {table}\n    \
         FOR EACH STATEMENT EXECUTE FUNCTION fencing_protect_truncate('{mode}')"
    );
    if is_partition { vec![truncate] } else { vec![rows, truncate] }
}

/// Returns the first argument of a trigger: what it does where the fence refuses.
fn mode(shadow: bool) -> &'static str {
    if shadow { "warn" } else { "refuse" }
}

/// Lists the first column, the text before it, and further columns; or nothing and the whole name.
fn arguments(naming: &Naming) -> Vec<String> {
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
fn read_arguments(hex: &str) -> Option<(bool, Naming)> {
    let text = String::from_utf8(unhex(hex)?).ok()?;
    let mut arguments = text.strip_suffix('\0')?.split('\0').map(str::to_owned);
    let (mode, first, prefix) = (arguments.next()?, arguments.next()?, arguments.next()?);
    let naming = match first.is_empty() {
        true => Naming::Whole(Resource::new(prefix).ok()?),
        false => {
            Naming::Columns { prefix, columns: [first].into_iter().chain(arguments).collect() }
        }
    };
    Some((mode == self::mode(true), naming))
}

struct Member {
    protect: Protect,
    is_partition: bool,
    may_grow: bool,
    rows: Option<String>,
    truncate: Option<String>,
}

async fn tree<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> sqlx::Result<Vec<Member>> {
    let rows = DB::texts(conn, protect.of_table::<DB>(TREE)).await?;
    let member = |row: Vec<Option<String>>| {
        let [schema, Some(table), is_partition, may_grow, rows, truncate] =
            <[Option<String>; 6]>::try_from(row).ok()?
        else {
            return None;
        };
        let protect = Protect { schema, table, ..protect.clone() };
        let is = |text: Option<String>| text.as_deref() == Some("true");
        let (is_partition, may_grow) = (is(is_partition), is(may_grow));
        Some(Member { protect, is_partition, may_grow, rows, truncate })
    };
    Ok(rows.into_iter().filter_map(member).collect())
}

pub(super) async fn apply<DB: Database>(
    protect: &Protect,
    conn: &mut DB::Connection,
) -> Result<(), ProtectError> {
    let tree = tree::<DB>(protect, conn).await?;
    // The table's own first: those of its partitions depend on it.
    let drops = tree.iter().flat_map(|member| drops(&member.protect));
    let creates = tree
        .iter()
        .enumerate()
        .flat_map(|(at, member)| creates(&member.protect, member.is_partition && at > 0));
    for statement in drops.chain(creates) {
        DB::execute(conn, statement).await?;
    }
    // The search path may lead to the functions of another fence.
    match faults(&self::tree::<DB>(protect, conn).await?).into_iter().next() {
        None => Ok(()),
        Some(fault) => Err(protect.unguardable(format!(
            "{fault}: set a search_path on which the schema of the marks comes first"
        ))),
    }
}

pub(super) async fn found<DB: Database>(
    conn: &mut DB::Connection,
    of_every_fence: bool,
) -> sqlx::Result<Vec<Protected>> {
    let mut found = Vec::new();
    let query = fill(FOUND, &[("{every}", &of_every_fence)]);
    for row in DB::texts(conn, query).await? {
        let [schema, Some(name), is_visible] = &row[..] else { continue };
        let mut table = Protect::unknown(schema.clone(), name.clone());
        let tree = tree::<DB>(&table, conn).await?;
        let rows = tree.first().and_then(|root| root.rows.clone()).unwrap_or_default();
        if let Some((shadow, naming)) = read_arguments(&rows) {
            (table.shadow, table.naming) = (shadow, naming);
        }
        let mut unseen = vec![SESSIONS.to_owned()];
        if tree.iter().any(|member| member.may_grow) {
            unseen.push(LATER.to_owned());
        }
        let is_visible = is_visible.as_deref() == Some("true");
        let drops = tree.iter().flat_map(|member| drops(&member.protect)).collect();
        let faults = faults(&tree);
        found.push(Protected::new(table, is_visible, faults, unseen, drops));
    }
    Ok(found)
}

/// The triggers of all tables of the tree must be those of the first.
fn faults(tree: &[Member]) -> Vec<String> {
    let own = tree.first().and_then(|root| root.rows.clone()).unwrap_or_default();
    let shadow = read_arguments(&own).is_some_and(|(shadow, _)| shadow);
    let truncate = hex(format!("{}\0", mode(shadow)));
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    for member in tree {
        for (trigger, state, text) in [
            ("fencing_protect", &member.rows, own.as_str()),
            ("fencing_protect_truncate", &member.truncate, truncate.as_str()),
        ] {
            let name = format!("{trigger} on {}", member.protect.table);
            found.extend(state.clone().map(|state| (name.clone(), state)));
            expected.push((name, text.to_owned()));
        }
    }
    trigger_faults(&expected, &found)
}
