use http::{HeaderMap, HeaderName, HeaderValue};

use crate::token::Token;

/// The header that carries the token, unless the layer [names another](super::FenceLayer::header).
pub const HEADER: HeaderName = HeaderName::from_static("fencing-token");

/// The header of a response that tells what the fence would have answered, where the layer runs in
/// [shadow mode](super::FenceLayer::shadow): an HTTP status, also to clients that speak gRPC.
pub const SHADOW: HeaderName = HeaderName::from_static("fencing-shadow");

/// Client side: puts the token of your lease into a request's headers, in place of one that
/// stands there.
pub fn attach(headers: &mut HeaderMap, token: Token) {
    headers.insert(HEADER, HeaderValue::from(token.get()));
}
