/// The longest section of trailers, in bytes.
const TRAILERS: usize = 8 << 10;

/// Where a reader stands in a body that comes in chunks (RFC 9112, 7.1). It takes chunks in their plain
/// form only: a length in hexadecimal digits, and CRLF at each end. Whoever reads the same bytes in
/// another way would find another end of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In the line with the length of a chunk: what it says so far, and in how many digits.
    Length { length: u64, digits: u32 },
    /// Behind the CR of that line.
    LengthEnd(u64),
    /// In the content of a chunk, with so much to come.
    Content(u64),
    /// Behind the content of a chunk: CR, then LF.
    ContentEnd { cr: bool },
    /// In a trailer, or at the end: so many bytes of the line, whether the last was CR, and so many
    /// in all.
    Trailer { line: usize, cr: bool, all: usize },
    /// The body has ended.
    End,
}

/// The body cannot be read in one way only.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Chunks {
    pub(super) fn new() -> Chunks {
        Chunks::Length { length: 0, digits: 0 }
    }

    /// Reads on, and returns how many of these bytes belong to the body.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self {
                Chunks::End => break,
                Chunks::Content(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= here as u64;
                    at += here;
                    if *left == 0 {
                        *self = Chunks::ContentEnd { cr: false };
                    }
                }
                _ => {
                    let byte = rest.first().copied().unwrap_or_default();
                    *self = self.step(byte)?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    fn step(&self, byte: u8) -> Result<Chunks, Malformed> {
        Ok(match (self, byte) {
            (Chunks::Length { digits: 1.., length }, b'\r') => Chunks::LengthEnd(*length),
            // No more digits than a u64 has.
            (Chunks::Length { digits: digits @ 0..16, length }, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
                Chunks::Length { length: length << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Chunks::LengthEnd(0), b'\n') => Chunks::Trailer { line: 0, cr: false, all: 0 },
            (Chunks::LengthEnd(length), b'\n') => Chunks::Content(*length),
            (Chunks::ContentEnd { cr: false }, b'\r') => Chunks::ContentEnd { cr: true },
            (Chunks::ContentEnd { cr: true }, b'\n') => Chunks::new(),
            (Chunks::Trailer { line: 0, cr: true, .. }, b'\n') => Chunks::End,
            (Chunks::Trailer { cr: true, all, .. }, b'\n') => {
                Chunks::Trailer { line: 0, cr: false, all: all + 1 }
            }
            (Chunks::Trailer { line, cr: false, all }, b'\r') => {
                Chunks::Trailer { line: *line, cr: true, all: all + 1 }
            }
            (Chunks::Trailer { line, cr: false, all: all @ 0..TRAILERS }, _) if byte != b'\n' => {
                Chunks::Trailer { line: line + 1, cr: false, all: all + 1 }
            }
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(usize, Chunks), Malformed> {
        let mut whole = Chunks::new();
        let read = whole.read(text.as_bytes())?;
        // The same byte by byte.
        let (mut single, mut count) = (Chunks::new(), 0);
        for byte in text.as_bytes() {
            count += single.read(&[*byte])?;
        }
        assert_eq!((read, &whole), (count, &single), "{text:?}");
        Ok((read, whole))
    }

    #[test]
    fn it_finds_the_end() {
        for (body, after) in [
            ("0\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "GET / HTTP/1.1\r\n"),
            ("A\r\n0123456789\r\n00\r\na: b\r\n\r\n", "5\r\n"),
            ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ] {
            assert_eq!(read(&format!("{body}{after}")), Ok((body.len(), Chunks::End)), "{body:?}");
        }
        assert!(matches!(read("5\r\nhel"), Ok((6, Chunks::Content(2)))));
    }

    #[test]
    fn it_takes_only_the_plain_form() {
        for body in [
            "\r\n",
            "5;a=b\r\nhello\r\n",
            "5 \r\nhello\r\n",
            "0x5\r\nhello\r\n",
            "+5\r\nhello\r\n",
            "5\nhello\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "00000000000000005\r\nhello\r\n",
            "0\r\na: b\nc: d\r\n\r\n",
            "0\r\n\rx",
        ] {
            assert_eq!(read(body), Err(Malformed), "{body:?}");
        }
        let long = format!("0\r\na: {}\r\n\r\n", "b".repeat(TRAILERS));
        assert_eq!(read(&long), Err(Malformed));
    }
}
