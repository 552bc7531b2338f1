use http::header::{HOST, TRANSFER_ENCODING};
use http::{Request, Version};

/// Says why another reader could see another request in the same bytes. hyper has one reading of each
/// request (RFC 9112, 6.3), and what is sent on is written again; this refuses what would be passed on
/// as it came.
pub(super) fn ambiguous<B>(request: &Request<B>) -> Option<&'static str> {
    if request.version() > Version::HTTP_11 {
        return None;
    }
    let headers = request.headers();
    match headers.get_all(HOST).iter().count() {
        0 if request.version() == Version::HTTP_11 => return Some("the request has no Host"),
        0 | 1 => {}
        _ => return Some("the request has a Host twice"),
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => None,
        _ => Some("the Transfer-Encoding is not chunked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let is_refused = |version, headers: &[(&str, &str)]| {
            let mut request = Request::builder().version(version);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            ambiguous(&request.body(()).unwrap()).is_some()
        };
        let host = ("host", "a");
        let new = |headers: &[(&str, &str)]| is_refused(Version::HTTP_11, headers);
        assert!(!new(&[host]) && !new(&[host, ("transfer-encoding", "Chunked")]));
        assert!(new(&[]) && new(&[host, host]));
        for coding in ["gzip, chunked", "chunked, chunked", "identity", ""] {
            assert!(new(&[host, ("transfer-encoding", coding)]), "{coding}");
        }
        assert!(new(&[host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]));
        assert!(!is_refused(Version::HTTP_10, &[]) && is_refused(Version::HTTP_10, &[host, host]));
        assert!(!is_refused(Version::HTTP_2, &[]));
    }
}
