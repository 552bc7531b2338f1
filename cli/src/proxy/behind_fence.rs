use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use fencing::Resource;
use fencing::http::FenceBody;
use futures_util::stream::{Pending, pending};
use http::request::Parts;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::mpsc;
use tower_service::Service;

use crate::listen::Upload;

/// The service behind the fence layer. It gives each request that the fence lets through back to the proxy, and answers
/// with a body that has no end: until that is dropped, the request is in flight.
#[derive(Clone)]
pub(super) struct BehindFence;

/// The answer for a request that was let through.
pub(super) type Admission = FenceBody<Endless>;
type Endless = StreamBody<Pending<Result<Frame<Bytes>, Infallible>>>;

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

impl Service<Request<Upload>> for BehindFence {
    type Response = Response<Endless>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Endless>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Upload>) -> Self::Future {
        if let Some(Waiting { passed, .. }) = request.extensions_mut().remove() {
            let _ = passed.try_send(request);
        }
        ready(Ok(Response::new(StreamBody::new(pending()))))
    }
}
