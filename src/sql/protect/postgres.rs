use super::{Named, Protect, quote};

/// Reads the type of a column where its text is not the same in every session. A domain
/// counts as what it is made of. A type's output that is not immutable depends on settings, or
/// on the search path; these others do so as well, although they are marked immutable.
pub(super) const SESSION_DEPENDENT: &str = "
    WITH RECURSIVE own AS (
        SELECT atttypid AS type, format_type(atttypid, atttypmod) AS name
        FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2
    ), made_of AS (
        SELECT type FROM own
        UNION ALL
        SELECT typbasetype FROM made_of, pg_type WHERE oid = type AND typtype = 'd'
    )
    SELECT name FROM own, made_of, pg_type, pg_proc AS output
    WHERE pg_type.oid = made_of.type AND output.oid = typoutput AND typtype NOT IN ('d', 'e')
        AND (provolatile <> 'i' OR typcategory = 'G'
            OR typname IN ('bytea', 'interval', 'float4', 'float8'))";

/// AFTER sees the row that lands: a trigger that fires later, or a generated column, changes what
/// BEFORE sees.
pub(super) fn statements(protect: &Protect) -> Vec<String> {
    let table = protect.path('"');
    let (column, name) = match &protect.named {
        Named::Column { prefix, column } => (column.as_str(), prefix.as_str()),
        Named::Whole(resource) => ("", resource.as_str()),
    };
    // An argument of a trigger is a plain text: E'' would be the only one with escapes.
    let text = |text: &str| match text.contains('\\') {
        true => format!("E{}", quote(&text.replace('\\', "\\\\"), '\'')),
        false => quote(text, '\''),
    };
    vec![
        format!("DROP TRIGGER IF EXISTS fencing_protect ON {table}"),
        format!(
            "CREATE TRIGGER fencing_protect AFTER INSERT OR UPDATE OR DELETE ON {table}\n    \
             FOR EACH ROW EXECUTE FUNCTION fencing_protect({}, {})",
            text(column),
            text(name)
        ),
        format!("DROP TRIGGER IF EXISTS fencing_protect_truncate ON {table}"),
        format!(
            "CREATE TRIGGER fencing_protect_truncate BEFORE TRUNCATE ON {table}\n    \
             FOR EACH STATEMENT EXECUTE FUNCTION fencing_protect_truncate()"
        ),
    ]
}
