//! Prints on stdout and stderr. If the reader has gone away, that is not an error.

use std::error::Error;
use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Prints a line on stderr, under the program's name.
pub(crate) fn error(text: impl Display) {
    let _ = writeln!(stderr(), "fencing: {text}");
}

/// Prints text on stderr as it is.
pub(crate) fn raw(text: &str) {
    let _ = write!(stderr(), "{text}");
}

/// Prints text on stdout as it is.
pub(crate) fn out(text: impl Display) {
    let _ = write!(stdout(), "{text}");
}

/// Returns an error and its causes, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        next = error.source();
    }
    text.replace('\n', " ")
}

/// Hides what may be a password in a URL: clap repeats arguments that it does not understand.
pub(crate) fn without_passwords(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| c.is_whitespace() || c == ',') {
        words.push_str(&hidden(word));
    }
    words
}

fn hidden(word: &str) -> String {
    let word = match (word.split_once("://"), word.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
        _ => word.to_owned(),
    };
    ["pass=", "password="].into_iter().fold(word, |word, key| match word.split_once(key) {
        Some((before, after)) => {
            let end = after.find(['&', ' ', '\n', ',']).unwrap_or(after.len());
            // The end of a quotation, and not of the password.
            let end = if after.ends_with('\'') { end.min(after.len() - 1) } else { end };
            format!("{before}{key}***{}", after.get(end..).unwrap_or(""))
        }
        None => word,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (text, expected) in [
            ("unexpected 'redis://me:s3cret@h:1/2' found", "unexpected 'redis://***@h:1/2' found"),
            ("a,rediss://:p@ss@h,b\n", "a,rediss://***@h,b\n"),
            ("invalid 'redis://me:s3'cret@h'", "invalid 'redis://***@h'"),
            ("'unix:///s?user=me&pass=s3'cret&db=1'", "'unix:///s?user=me&pass=***&db=1'"),
            ("'unix:///s?user=me&pass=s3cret&db=1'", "'unix:///s?user=me&pass=***&db=1'"),
            ("'postgres:///d?password=s3cret&x=1'", "'postgres:///d?password=***&x=1'"),
            ("'unix:///s?pass=s3cret'", "'unix:///s?pass=***'"),
            ("mail me@h about redis://h", "mail me@h about redis://h"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }
}
