use std::convert::Infallible;
use std::future::{Ready, ready};

use bytes::Bytes;
use fencing::Resource;
use fencing::http::FenceBody;
use futures_util::stream::{Pending, pending};
use http::request::Parts;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::mpsc;
use tower::util::ServiceFn;

use crate::listen::Upload;

/// The service behind the fence layer.
pub(super) type BehindFence =
    ServiceFn<fn(Request<Upload>) -> Ready<Result<Response<Endless>, Infallible>>>;

/// The answer for a request that was let through.
pub(super) type Admission = FenceBody<Endless>;
pub(super) type Endless = StreamBody<Pending<Result<Frame<Bytes>, Infallible>>>;

/// A request before the fence: an extension of the request.
#[derive(Clone)]
pub(super) struct Waiting {
    /// The resources that it is about, or why it names none.
    pub(super) named: Result<Vec<Resource>, String>,
    /// Takes the request behind the fence.
    pub(super) passed: mpsc::Sender<Request<Upload>>,
}

impl Waiting {
    /// The resources of a request, for the fence.
    pub(super) fn named(parts: &Parts) -> Result<Vec<Resource>, String> {
        let waiting = parts.extensions.get::<Waiting>();
        waiting.map_or_else(|| Err("the request was not named".into()), |it| it.named.clone())
    }
}

/// Gives a request that the fence lets through back to the proxy, and answers with a body that has no end: until that is
/// dropped, the request is in flight.
pub(super) fn let_through(
    mut request: Request<Upload>,
) -> Ready<Result<Response<Endless>, Infallible>> {
    if let Some(Waiting { passed, .. }) = request.extensions_mut().remove() {
        let _ = passed.try_send(request);
    }
    ready(Ok(Response::new(StreamBody::new(pending()))))
}
