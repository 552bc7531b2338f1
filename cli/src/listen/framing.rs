use httparse::{EMPTY_HEADER, Header, Request, Status};

/// How the body behind a head is framed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// How many headers a request may have.
pub(super) const MOST: usize = 100;

/// Reads the head of a request, and returns its length and how its body is framed; `None` if the head is
/// not complete.
///
/// # Errors
/// Says why another reader could see another request in the same bytes. Both lengths are refused, as RFC
/// 9112, 6.1 allows: hyper would drop one of them, and nobody behind it would know.
pub(super) fn framing(bytes: &[u8]) -> Result<Option<(usize, Framing)>, &'static str> {
    let mut headers = [EMPTY_HEADER; MOST];
    let mut request = Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(_) => return Err("the head of the request is malformed"),
    };
    if bytes.get(..length).is_some_and(bare_line_feed) {
        return Err("a line of the head ends without a carriage return");
    }
    let old = request.version == Some(0);
    let headers = &*request.headers;
    if one(headers, "host")?.is_none() && !old {
        return Err("the request has no Host");
    }
    let framing = match (one(headers, "transfer-encoding")?, one(headers, "content-length")?) {
        (Some(_), Some(_)) => {
            return Err("the request has both Content-Length and Transfer-Encoding");
        }
        (Some(_), None) if old => return Err("HTTP/1.0 has no Transfer-Encoding"),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
        (Some(_), None) => return Err("the Transfer-Encoding is not chunked"),
        (None, Some(digits)) => Framing::Length(number(digits).ok_or("Content-Length: no number")?),
        (None, None) => Framing::Length(0),
    };
    Ok(Some((length, framing)))
}

/// Returns the value of a header that may stand there once.
fn one<'a>(headers: &[Header<'a>], name: &str) -> Result<Option<&'a [u8]>, &'static str> {
    let mut found = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let first = found.next();
    match found.next() {
        Some(_) => Err("the request has a Host, Content-Length or Transfer-Encoding twice"),
        None => Ok(first.map(|header| header.value)),
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn bare_line_feed(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().any(|byte| std::mem::replace(&mut before, *byte) != b'\r' && *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &str) -> Result<Framing, &'static str> {
        let text = format!("POST /files/a HTTP/1.1\r\nHost: a\r\n{headers}\r\nbody");
        let read = framing(text.as_bytes())?;
        let (length, framing) = read.unwrap();
        assert_eq!(length, text.len() - 4);
        Ok(framing)
    }

    #[test]
    fn one_length_is_read() {
        assert_eq!(of(""), Ok(Framing::Length(0)));
        assert_eq!(of("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        assert_eq!(of("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
        assert_eq!(framing(b"GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
        assert!(framing(b"GET / HTTP/1.0\r\n\r\n").unwrap().is_some());
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for headers in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 0\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length : 5\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding:\x0bchunked\r\n",
            "A: b\r\n c\r\n",
            "A: b\nContent-Length: 5\r\n",
            "Host: b\r\n",
        ] {
            assert!(of(headers).is_err(), "{headers:?}");
        }
        assert!(framing(b"GET / HTTP/1.1\r\n\r\n").is_err(), "no host");
        let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(framing(old).is_err());
    }
}
