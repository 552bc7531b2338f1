use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};

use super::refusal::Style;
use super::{HEADER, Refusal};

/// Marks an answer that a handler made of a refusal; it stands in the answer's extensions. The layer knows
/// what the client may be told, and makes such an answer anew.
#[derive(Debug, Clone, Copy)]
struct OfTheHandler;

impl Refusal {
    /// Makes an answer for a handler, or for a layer below the fence. The fence makes it anew.
    pub(super) fn answer_below<B>(self, body: impl FnOnce(Option<Bytes>) -> B) -> Response<B> {
        let style = Style { grpc: false, header: HEADER, hides_highest: false };
        let mut response = self.answer(&style, body);
        response.extensions_mut().insert(OfTheHandler);
        response
    }
}

/// Takes the refusal out of a handler's answer, if the answer is a refusal and still has its status.
pub(super) fn of_the_handler<B>(response: &mut Response<B>) -> Option<Refusal> {
    let extensions = response.extensions_mut();
    extensions.remove::<OfTheHandler>()?;
    let refusal = extensions.get::<Refusal>()?.clone();
    (response.status() == refusal.status()).then_some(refusal)
}

/// Replaces the handler's answer by the layer's, and keeps the handler's other headers.
pub(super) fn answer_anew<B, C>(handlers: Response<B>, mut answer: Response<C>) -> Response<C> {
    let (mut parts, body) = handlers.into_parts();
    // Drops the body before the request stops counting as in flight.
    drop(body);
    for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, RETRY_AFTER] {
        parts.headers.remove(name);
    }
    parts.headers.extend(std::mem::take(answer.headers_mut()));
    *answer.headers_mut() = parts.headers;
    let own = std::mem::replace(answer.extensions_mut(), parts.extensions);
    answer.extensions_mut().extend(own);
    answer
}
