//! What a client of Redis sends, for servers that are none.

use std::io::BufRead;

/// Reads one command. `None` where there is none any more.
pub fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(reader, '*')? {
        let mut word = vec![0; number(reader, '$')? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).ok()?);
    }
    Some(words)
}

fn number(reader: &mut impl BufRead, sign: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim().strip_prefix(sign)?.parse().ok()
}
