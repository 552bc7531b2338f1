//! What is pressed.

/// A key that the view knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Pause,
    Anew,
    Suspend,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Reads keys from the bytes that a terminal sends. A key such as an arrow comes as several bytes, perhaps not at once.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// What has come of such a key.
    begun: Vec<u8>,
}

impl Keys {
    /// Takes a byte, and returns the key that it ends.
    pub(super) fn take(&mut self, byte: u8) -> Option<Key> {
        if byte == ESCAPE {
            // A second one: the first was the key of that name.
            let before = self.begun == [ESCAPE];
            self.begun = vec![ESCAPE];
            return before.then_some(Key::Quit);
        }
        if self.begun.is_empty() {
            return alone(byte);
        }
        self.begun.push(byte);
        let ends = match self.begun.len() {
            2 => !matches!(byte, b'[' | b'O'),
            3..16 => (0x40..=0x7e).contains(&byte),
            _ => true,
        };
        ends.then(|| sequence(&std::mem::take(&mut self.begun))).flatten()
    }

    /// Returns whether a key has begun.
    pub(super) fn wait(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Says that nothing has followed: an escape alone is a key.
    pub(super) fn nothing_more(&mut self) -> Option<Key> {
        (std::mem::take(&mut self.begun) == [ESCAPE]).then_some(Key::Quit)
    }
}

const ESCAPE: u8 = 0x1b;

fn alone(byte: u8) -> Option<Key> {
    match byte {
        b'q' | b'Q' | 0x03 => Some(Key::Quit),
        b'p' | b'P' => Some(Key::Pause),
        0x0c => Some(Key::Anew),
        0x1a => Some(Key::Suspend),
        b'k' => Some(Key::Up),
        b'j' => Some(Key::Down),
        b' ' => Some(Key::PageDown),
        _ => None,
    }
}

fn sequence(bytes: &[u8]) -> Option<Key> {
    match bytes.get(1..)? {
        b"[A" | b"OA" => Some(Key::Up),
        b"[B" | b"OB" => Some(Key::Down),
        b"[5~" => Some(Key::PageUp),
        b"[6~" => Some(Key::PageDown),
        b"[H" | b"OH" | b"[1~" | b"[7~" => Some(Key::Home),
        b"[F" | b"OF" | b"[4~" | b"[8~" => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        let mut found: Vec<Key> = bytes.iter().filter_map(|byte| keys.take(*byte)).collect();
        found.extend(keys.nothing_more());
        found
    }

    #[test]
    fn keys_are_read_however_their_bytes_come() {
        assert_eq!(typed(b"q"), [Key::Quit]);
        assert_eq!(typed(b"\x03"), [Key::Quit]);
        assert_eq!(typed(b"\x1b"), [Key::Quit]);
        assert_eq!(typed(b"\x1b\x1b"), [Key::Quit, Key::Quit]);
        assert_eq!(typed(b"\x1b[A\x1bOBp"), [Key::Up, Key::Down, Key::Pause]);
        assert_eq!(typed(b"\x1b[5~\x1b[6~"), [Key::PageUp, Key::PageDown]);
        assert_eq!(typed(b"\x1b[H\x1b[4~"), [Key::Home, Key::End]);
    }

    #[test]
    fn what_it_does_not_know_is_no_key() {
        // Ctrl-arrow, F5, Alt-q, the answer of a terminal, half a key.
        for bytes in
            [&b"\x1b[1;5A"[..], b"\x1b[15~", b"\x1bq", b"\x1b[?62;22c", b"\x1b[", b"x\xff\x00"]
        {
            assert_eq!(typed(bytes), [], "{bytes:?}");
        }
        assert_eq!(typed(&[&b"\x1b["[..], &[b'1'; 100]].concat()), []);
    }
}
