use http::Method;

/// What a [`FenceLayer`](super::FenceLayer) asks of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The request needs a token, and the fence checks it.
    Required,
    /// The fence checks the token if there is one. Without one the request passes, and the handler gets no
    /// [`Fenced`](super::Fenced).
    Optional,
    /// The request passes, and the fence does not look at its token. The handler gets no
    /// [`Fenced`](super::Fenced).
    Ignored,
}

/// Which requests need a token. The fence checks every token that is sent, needed or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Require {
    /// All requests but reads, which have safe methods as IANA registers them: GET, HEAD, OPTIONS,
    /// TRACE, and PROPFIND, QUERY, REPORT and SEARCH.
    #[default]
    UnsafeMethods,
    /// All requests.
    Always,
}

/// Returns whether the method is safe.
pub(super) fn is_read(method: &Method) -> bool {
    method.is_safe() || matches!(method.as_str(), "PROPFIND" | "QUERY" | "REPORT" | "SEARCH")
}
