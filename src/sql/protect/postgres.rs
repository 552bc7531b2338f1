use super::{Named, Protect, quote};

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
            "CREATE TRIGGER fencing_protect BEFORE INSERT OR UPDATE OR DELETE ON {table}\n    \
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
