use http::Method;
use http::request::Parts;

/// The requirements of a [`FenceLayer`](super::FenceLayer) for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The request needs a token, and the fence checks it.
    Required,
    /// The fence checks the token if there is one. Without one the request passes, and the handler gets no
    /// [`Fenced`](super::Fenced).
    Optional,
    /// The request passes, and the fence ignores its token. The handler gets no [`Fenced`](super::Fenced).
    Ignored,
}

impl Policy {
    /// Requires a token of all requests but reads, which have safe methods as IANA registers them: GET, HEAD,
    /// OPTIONS, TRACE, and PROPFIND, QUERY, REPORT and SEARCH. The token of a read is checked.
    #[must_use]
    pub fn for_writes(request: &Parts) -> Policy {
        if is_read(&request.method) { Policy::Optional } else { Policy::Required }
    }

    /// Ignores the tokens of reads, and requires a token of all other requests.
    ///
    /// **Fencing.** Use it on routes where some users may read but not write: by default a read
    /// raises the mark, so that a reader with a forged token locks out the writers. You lose the
    /// seal: an older holder may write between the read of a newer one and its write, so let the
    /// newer one read behind a route that seals, or in the transaction that writes.
    #[must_use]
    pub fn ignoring_reads(request: &Parts) -> Policy {
        if is_read(&request.method) { Policy::Ignored } else { Policy::Required }
    }
}

/// Returns whether the method is safe.
fn is_read(method: &Method) -> bool {
    method.is_safe() || matches!(method.as_str(), "PROPFIND" | "QUERY" | "REPORT" | "SEARCH")
}
