use std::iter::once;

use fencing_protocol::Token;
use object_store::path::{Path, PathPart};

/// The folder of what the fence keeps for itself: the contents of streams, below the paths of their objects.
pub(super) const FOLDER: &str = ".fencing";

/// The longest head, in bytes. It is what has to be read of an object before a write.
pub(super) const MAX_HEAD: usize = 1024;

/// The line at the start of each object. Its format is a promise: `fencing 1 TOKEN NONCE PLACE` and a line feed. TOKEN,
/// of the last write, is decimal, NONCE is 32 hex digits, PLACE of the contents: `here`, `gone`, or `at` and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub token: Token,
    /// A random number, drawn for each write: no two versions of an object have the same bytes.
    pub nonce: u128,
    pub location: Location,
}

/// Where the contents of an object are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// Behind the head.
    Here,
    /// Nowhere: the object is deleted. What is left keeps its token.
    Gone,
    /// In another object, which is never written again.
    At(Path),
}

impl Head {
    /// Returns the line with its line feed.
    pub fn line(&self) -> String {
        let Head { token, nonce, location } = self;
        match location {
            Location::Here => format!("fencing 1 {token} {nonce:032x} here\n"),
            Location::Gone => format!("fencing 1 {token} {nonce:032x} gone\n"),
            Location::At(path) => format!("fencing 1 {token} {nonce:032x} at {path}\n"),
        }
    }

    /// Finds the head at the start of an object, and its length in bytes. Without one, this fence has not written it.
    pub fn parse(object: &[u8]) -> Option<(Head, usize)> {
        let end = object.iter().take(MAX_HEAD).position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(object.get(..end)?).ok()?;
        let mut words = line.strip_prefix("fencing 1 ")?.splitn(3, ' ');
        let (token, nonce, location) = (words.next()?, words.next()?, words.next()?);
        let location = match location {
            "here" => Location::Here,
            "gone" => Location::Gone,
            // Taken as it is: it must not be encoded a second time.
            location => Location::At(Path::parse(location.strip_prefix("at ")?).ok()?),
        };
        let head = Head { token: token.parse().ok()?, nonce: u128::from_str_radix(nonce, 16).ok()?, location };
        // Another spelling of the same head is no head: there is one way to write it.
        (head.line().as_bytes() == object.get(..=end)?).then_some((head, end + 1))
    }
}

/// Returns the path for the contents of a stream. It is never written a second time: the nonce is new.
pub(super) fn body(path: &Path, token: Token, nonce: u128) -> Path {
    let name = PathPart::from(format!("{token}-{nonce:032x}"));
    once(PathPart::from(FOLDER)).chain(path.parts()).chain(once(name)).collect()
}

/// Returns the object that the contents of a stream belong to, and the token that they were written under.
pub(super) fn owner(body: &Path) -> Option<(Path, Token)> {
    let parts: Vec<PathPart<'_>> = body.parts().collect();
    // No object has an empty path: to read it is to read the bucket.
    let [_, first, path @ .., name] = &parts[..] else { return None };
    let (token, _) = name.as_ref().split_once('-')?;
    Some((once(first).chain(path).cloned().collect(), token.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let longest = Path::from("a b%/ü".repeat(60));
        for location in [Location::Here, Location::Gone, Location::At(longest)] {
            for (token, nonce) in [(1_u64, 0), (999_999_999_999_999, u128::MAX)] {
                let head =
                    Head { token: Token::try_from(token).expect("it is one"), nonce, location: location.clone() };
                let line = head.line();
                let object = format!("{line}contents\n");
                assert_eq!(Head::parse(object.as_bytes()), Some((head, line.len())), "{object}");
            }
        }
    }

    /// These are promised to readers that do without this crate.
    #[test]
    fn the_format_is_this_one() {
        let nonce = 0x9f1c_0c5b_e2d0_4a7e;
        let head = Head { token: Token::try_from(34_u64).expect("it is one"), nonce, location: Location::Here };
        assert_eq!(head.line(), "fencing 1 34 00000000000000009f1c0c5be2d04a7e here\n");
    }

    #[test]
    fn contents_elsewhere_know_their_object() {
        let token = Token::try_from(34_u64).expect("it is one");
        for path in ["a", "a/b", "a b%25/x", "34-0"] {
            let path = Path::parse(path).expect("it is one");
            assert_eq!(owner(&body(&path, token, 7)), Some((path, token)));
        }
        // An object that tested a store.
        assert_eq!(owner(&Path::from(".fencing/probe-0")), None);
        assert_eq!(owner(&Path::from(".fencing/33-0")), None);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let nonce = "0".repeat(32);
        let lines = [
            String::new(),
            "\n".into(),
            "hello\n".into(),
            // It does not end.
            format!("fencing 1 34 {nonce} here"),
            format!("fencing 1 34 {nonce} at {}\n", "a/".repeat(MAX_HEAD / 2)),
            // A later format.
            format!("fencing 2 34 {nonce} here\n"),
            format!("fencing 1 0 {nonce} here\n"),
            format!("fencing 1 034 {nonce} here\n"),
            format!("fencing 1 1000000000000000 {nonce} here\n"),
            format!("fencing 1 34 {} here\n", "0".repeat(31)),
            format!("fencing 1 34 {} here\n", "0".repeat(33)),
            format!("fencing 1 34 +{} here\n", "0".repeat(31)),
            format!("fencing 1 34 {} here\n", "A".repeat(32)),
            format!("fencing 1 34 {nonce} there\n"),
            format!("fencing 1 34 {nonce} here \n"),
            format!("fencing 1 34 {nonce} at ..\n"),
            format!("fencing 1 34 {nonce} at /a\n"),
        ];
        for line in lines {
            assert_eq!(Head::parse(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(Head::parse(b"fencing 1 34 \xff here\n"), None);
    }
}
