//! Text for a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What is drawn of one text at most, in characters.
const LONGEST: usize = 400;

/// Returns a text without what a terminal would obey, or what would not be seen: control characters, and those
/// that turn or hide what stands around them.
pub(super) fn plain(text: &str) -> String {
    let seen = |c: char| if obeyed(c) { '\u{fffd}' } else { c };
    text.chars().take(LONGEST).map(seen).collect()
}

fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// How many columns a text takes.
pub(super) fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Returns a text that takes exactly so many columns: filled up at its end, or cut in the middle, as names
/// often differ at their ends.
pub(super) fn fit(text: &str, width: usize) -> String {
    let text = plain(text);
    let fill = |text: &str| " ".repeat(width.saturating_sub(columns(text)));
    if columns(&text) <= width {
        return format!("{text}{}", fill(&text));
    }
    if width == 0 {
        return String::new();
    }
    let tail = (width - 1) / 2;
    let head = start(text.chars(), width - 1 - tail);
    let tail: String = start(text.chars().rev(), tail).chars().rev().collect();
    let cut = format!("{head}\u{2026}{tail}");
    format!("{cut}{}", fill(&cut))
}

/// The first characters, as many as fit.
fn start(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = 0;
    text.take_while(|c| {
        taken += c.width().unwrap_or(0);
        taken <= width
    })
    .collect()
}

/// Breaks a text between its words into lines of this width, `most` of them at most.
pub(super) fn wrapped(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let text = plain(text);
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most
        && let Some(last) = most.checked_sub(1)
    {
        let rest = lines.split_off(last).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| cut(line, width)).collect()
}

/// Cuts a text at its end.
fn cut(text: &str, width: usize) -> String {
    match columns(text) <= width {
        true => text.to_owned(),
        false => format!("{}\u{2026}", start(text.chars(), width.saturating_sub(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_taken_out() {
        for text in ["a\u{1b}[2Jb", "a\rb", "a\u{9b}31mb", "a\u{202e}b", "a\u{200b}b", "a\nb"] {
            let plain = plain(text);
            assert!(plain.starts_with("a\u{fffd}") && plain.ends_with('b'), "{plain:?}");
        }
        assert_eq!(plain("invoice/42 \u{e4} \u{8a9e}"), "invoice/42 \u{e4} \u{8a9e}");
        assert_eq!(plain(&"x".repeat(10_000)).len(), LONGEST);
    }

    #[test]
    fn names_fit_into_their_columns() {
        for (text, width, fitted) in [
            ("abc", 5, "abc  "),
            ("abcdef", 6, "abcdef"),
            ("abcdefgh", 6, "abc\u{2026}gh"),
            ("abc", 1, "\u{2026}"),
            ("abc", 0, ""),
            // Two columns each.
            ("\u{8a9e}\u{8a9e}\u{8a9e}", 4, "\u{8a9e}\u{2026} "),
        ] {
            assert_eq!(fit(text, width), fitted, "{text} {width}");
            assert_eq!(columns(&fit(text, width)), width, "{text} {width}");
        }
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7, 3), ["one two", "three"]);
        assert_eq!(wrapped("one two three four", 7, 2), ["one two", "three \u{2026}"]);
        assert_eq!(wrapped("unbreakable", 5, 2), ["unbr\u{2026}"]);
        assert_eq!(wrapped("", 5, 2), [""; 0]);
    }
}
