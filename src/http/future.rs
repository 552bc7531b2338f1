use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::body::Guard;
use super::reject::Style;
use super::{FenceBody, Fenced, Refusal};
use crate::fence::Admission;
use crate::fence::Fence;

pin_project! {
    /// The response of a [`FenceService`](super::FenceService).
    ///
    /// # Cancel safety
    /// Dropped, it drops the request, and then lets newer ones in.
    pub struct FenceFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
        style: Style,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F> {
        Refused { refusal: Option<Refusal> },
        Admitting {
            admit: BoxFuture<'static, Result<Admission, Refusal>>,
            held: Option<(S, Request<B>)>,
        },
        // Dropped in this order: the request ends before newer ones are let in.
        Running { #[pin] future: F, guard: Option<Guard> },
    }
}

impl<S, B> FenceFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn refused(refusal: Refusal, style: Style) -> FenceFuture<S, B> {
        FenceFuture { state: State::Refused { refusal: Some(refusal) }, style }
    }

    pub(super) fn passing(future: S::Future, style: Style) -> FenceFuture<S, B> {
        FenceFuture { state: State::Running { future, guard: None }, style }
    }

    pub(super) fn admitting(
        fence: Fence,
        fenced: Fenced,
        service: S,
        request: Request<B>,
        style: Style,
    ) -> FenceFuture<S, B> {
        let admit = async move {
            let Fenced { resource, token } = fenced;
            let outcome = fence.admit(&resource, token).await;
            outcome.map_err(|error| Refusal::of(resource, token, error))
        };
        let state = State::Admitting { admit: admit.boxed(), held: Some((service, request)) };
        FenceFuture { state, style }
    }
}

impl<S, B, R> Future for FenceFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
    R::Data: From<Bytes>,
{
    type Output = Result<Response<FenceBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Refused { refusal } => match refusal.take() {
                    Some(refusal) => {
                        let response = refusal.answer(this.style, FenceBody::refusal);
                        return Poll::Ready(Ok(response));
                    }
                    // Polled after the end.
                    None => return Poll::Pending,
                },
                StateProjection::Admitting { admit, held } => {
                    match (ready!(admit.poll_unpin(context)), held.take()) {
                        (Ok(admission), Some((mut service, request))) => State::Running {
                            future: service.call(request),
                            guard: Some(Guard::new(admission)),
                        },
                        (Err(refusal), _) => State::Refused { refusal: Some(refusal) },
                        (Ok(_), None) => State::Refused { refusal: None },
                    }
                }
                StateProjection::Running { future, guard } => {
                    // The handler first: what it has finished is no longer in doubt.
                    if let Poll::Ready(response) = future.poll(context) {
                        let guard = guard.take();
                        return Poll::Ready(Ok(response?.map(|body| FenceBody::new(body, guard))));
                    }
                    match guard.as_mut().and_then(|guard| guard.superseded(context)) {
                        Some(stale) => State::Refused { refusal: Some(Refusal::Superseded(stale)) },
                        None => return Poll::Pending,
                    }
                }
            };
            this.state.set(next);
        }
    }
}
