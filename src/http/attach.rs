use http::{HeaderMap, HeaderName, HeaderValue};

use crate::token::Token;

/// The header that carries the token, unless configured otherwise.
pub const HEADER: HeaderName = HeaderName::from_static("fencing-token");

/// Client side: gives the request the token of the lease under which it is sent.
pub fn attach(headers: &mut HeaderMap, token: Token) {
    headers.insert(HEADER, HeaderValue::from(token.get()));
}
