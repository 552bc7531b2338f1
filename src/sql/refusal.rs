use std::error::Error;
use std::iter::successors;

use fencing_protocol::{Resource, Token};

use crate::fence::Stale;

/// Returns the refusal, if the error says that this token of this resource is stale. Use it for
/// transactions of other libraries than `sqlx` ([`statement`](super::statement)). It reads the text of the error and of
/// its sources, so it works with any library that repeats what the database said.
pub fn stale(error: &(dyn Error + 'static), resource: &Resource, presented: Token) -> Option<Stale> {
    successors(Some(error), |error| (**error).source())
        .find_map(|error| Stale::check(resource, presented, high_water(&error.to_string(), resource, presented)).err())
}

/// Returns the refusal that the error of a stale token reports. The name may have been cut.
pub(super) fn refusal(error: &sqlx::Error) -> Option<Stale> {
    parse(error.as_database_error()?.message())
}

/// Reads `fencing: token 33 is stale, high water 34, resource files/a`, after any text. The name is the rest:
/// it may contain anything. SQLite quotes the message.
fn parse(text: &str) -> Option<Stale> {
    let (before, presented, highest, name) = parts(text)?;
    let resource = match is_quoted(before) {
        true => Resource::new(name.rsplit_once('\'')?.0.replace("''", "'")),
        false => Resource::new(name.trim_end()),
    };
    Stale::check(&resource.ok()?, presented, Some(highest)).err()
}

/// The longest message of MySQL, in characters. A longer one ends in three dots.
const MAX_MESSAGE: usize = 128;

/// Finds the high water that refused this token of this resource. A library may append text to the message, behind
/// white space or a mark that closes it; SQLite quotes it, which doubles quotes in the name; MySQL may have cut the name.
fn high_water(text: &str, resource: &Resource, token: Token) -> Option<Token> {
    let (before, presented, highest, name) = parts(text)?;
    let quoted = is_quoted(before);
    let own = if quoted { resource.as_str().replace('\'', "''") } else { resource.as_str().to_owned() };
    let ends = |rest: &str| match quoted {
        true => rest.starts_with('\'') && !rest.starts_with("''"),
        false => rest.chars().next().is_none_or(|next| next.is_whitespace() || "\"'`)]},;\\".contains(next)),
    };
    let room = MAX_MESSAGE.saturating_sub(text.get(before.len()..text.len() - name.len())?.len());
    let cut = name.char_indices().nth(room).map_or(name, |(end, _)| name.split_at(end).0);
    let is_cut = || cut.chars().count() == room && cut.strip_suffix("...").is_some_and(|start| own.starts_with(start));
    let is_own = name.strip_prefix(&own).is_some_and(ends) || is_cut();
    (is_own && presented == token).then_some(highest)
}

fn is_quoted(before: &str) -> bool {
    before.ends_with('\'')
}

/// Splits the message: the text before it, the two tokens, and the name with the text after it.
fn parts(text: &str) -> Option<(&str, Token, Token, &str)> {
    let (before, text) = text.split_once("fencing: token ")?;
    let (presented, text) = text.split_once(" is stale, high water ")?;
    let (highest, name) = text.split_once(", resource ")?;
    Some((before, presented.parse().ok()?, highest.parse().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_and_nothing_else() {
        let text = "x: fencing: token 33 is stale, high water 34, resource a, resource b";
        let stale = parse(text).unwrap();
        assert_eq!((stale.presented.get(), stale.highest.get()), (33, 34));
        assert_eq!(stale.resource.as_str(), "a, resource b");
        let quoted = "bad JSON path: 'fencing: token 33 is stale, high water 34, resource it''s' x";
        assert_eq!(parse(quoted).unwrap().resource.as_str(), "it's");
        for text in [
            "",
            "fencing: token 0 is stale, high water 34, resource a",
            "fencing: token 33 is stale, high water 034, resource a",
            "fencing: token 33 is stale, high water 34, resource ",
            "token 33 is stale, high water 34, resource a",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_high_water_is_read_whatever_stands_around_the_message() {
        let of = |name: &str, text: &str| {
            let token = "33".parse().unwrap();
            high_water(text, &Resource::new(name).unwrap(), token).map(Token::get)
        };
        let plain = "fencing: token 33 is stale, high water 34, resource files/a";
        assert_eq!(of("files/a", plain), Some(34));
        assert_eq!(of("files/a", &format!("Query Error: x: {plain} at line 7")), Some(34));
        assert_eq!(of("files/a", &format!("(1644, \"{plain}\")")), Some(34));
        for other in ["files/b", "files/a/b", "files/ab", "files", "file"] {
            assert_eq!(of(other, plain), None, "{other}");
            assert_eq!(of("files/a", &plain.replace("files/a", other)), None, "{other}");
        }
        assert_eq!(of("files/a", &plain.replace("33", "32")), None);
        let quoted = "bad JSON path: 'fencing: token 33 is stale, high water 34, resource it''s' x";
        assert_eq!(of("it's", quoted), Some(34));
        assert_eq!(of("it", quoted), None);
        let long = "l".repeat(128 - 3 - "fencing: token 33 is stale, high water 34, resource ".len());
        let cut = format!("1644 (ZF412): fencing: token 33 is stale, high water 34, resource {long}...");
        assert_eq!(of(&format!("{long}onger"), &cut), Some(34));
        assert_eq!(of(&format!("{long}onger"), &format!("{cut} at line 7")), Some(34));
        assert_eq!(of("other", &cut), None);
        assert_eq!(of("longer", &cut.replace(&long, "long")), None);
    }
}
