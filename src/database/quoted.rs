use std::fmt::Display;

/// Puts values into the places of a statement, such as `{token}`. A text among them is a literal: see
/// [`Dialect::literal`](super::Dialect::literal).
pub fn fill(sql: &str, values: &[(&str, &(dyn Display + Sync))]) -> String {
    values.iter().fold(sql.to_owned(), |sql, (place, value)| sql.replace(place, &value.to_string()))
}

/// Quotes a name or a text, and doubles the marks within.
pub fn quote(text: &str, mark: char) -> String {
    let doubled = text.replace(mark, &format!("{mark}{mark}"));
    format!("{mark}{doubled}{mark}")
}

/// Reads what [`quote`] has written at the beginning of a text: it, and the rest of the text.
pub fn unquote(text: &str, mark: char) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix(mark)?;
    let mut read = String::new();
    loop {
        let (part, after) = rest.split_once(mark)?;
        read.push_str(part);
        let Some(doubled) = after.strip_prefix(mark) else { return Some((read, after)) };
        read.push(mark);
        rest = doubled;
    }
}
