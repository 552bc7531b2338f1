use std::future::Future;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::admissions::{Admissions, AskedFence, Passage, superseded};
use super::answer::{AnswerStyle, refusal_of_handler, replace_answer};
use super::{FenceBody, Refusal, SHADOW};
use crate::fence::Stale;

pin_project! {
    /// The response of a [`FenceService`](super::FenceService).
    ///
    /// It waits for the fence, then for the inner service. A refusal is a response, and never an error.
    ///
    /// # Cancel safety
    /// If you drop the future, it drops the request first, and then lets newer ones in.
    #[derive(derive_more::Debug)]
    #[debug("FenceFuture {{ .. }}")]
    pub struct FenceFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        step: Step<S::Future>,
        call: Option<UnsentCall<S, B>>,
        // Dropped after the request, which is in one of those above.
        passage: Passage,
        // Made when the request has to wait for something.
        superseded: Option<BoxFuture<'static, Stale>>,
        style: AnswerStyle,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<F> {
        AskingFence { asked: AskedFence },
        WaitingForService,
        Handling { #[pin] handler: F },
        Ended,
    }
}

/// A request, and the service that is to handle it. The service is asked whether it is ready when
/// the request is admitted: a waiting request takes no place in a limit below.
pub(super) struct UnsentCall<S, B> {
    pub(super) request: Request<B>,
    pub(super) service: S,
}

impl<S, B> FenceFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn new(call: UnsentCall<S, B>, asked: AskedFence, style: AnswerStyle) -> FenceFuture<S, B> {
        let (step, passage) = (Step::AskingFence { asked }, Passage::default());
        FenceFuture { step, call: Some(call), passage, superseded: None, style }
    }
}

/// Makes the layer's response of the handler's.
fn answered<R: Body + Send + 'static>(
    mut response: Response<R>,
    admissions: Admissions,
    style: &AnswerStyle,
) -> Response<FenceBody<R>> {
    match refusal_of_handler(&mut response) {
        Some(refusal) => replace_answer(response, refusal.answer(style, FenceBody::refusal)),
        None => response.map(|body| FenceBody::new(body, admissions, style)),
    }
}

impl<S, B, R> Future for FenceFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body + Send + 'static,
    R::Data: From<Bytes>,
{
    type Output = Result<Response<FenceBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let outcome = loop {
            let cut_off: fn(Stale) -> Refusal = match this.step.as_mut().project() {
                StepProjection::AskingFence { asked } => match ready!(asked.poll_unpin(context)) {
                    Ok(passage) => {
                        *this.passage = passage;
                        this.step.set(Step::WaitingForService);
                        continue;
                    }
                    Err(refusal) => break Ok(refusal),
                },
                StepProjection::WaitingForService => {
                    let Some(UnsentCall { request, mut service }) = this.call.take() else {
                        return Poll::Pending;
                    };
                    match service.poll_ready(context) {
                        Poll::Ready(Ok(())) => {
                            this.step.set(Step::Handling { handler: service.call(request) });
                            continue;
                        }
                        Poll::Ready(Err(error)) => break Err(error),
                        Poll::Pending => *this.call = Some(UnsentCall { request, service }),
                    }
                    Refusal::Stale
                }
                StepProjection::Handling { handler } => {
                    // The handler first: what it has finished is no longer in doubt.
                    if let Poll::Ready(response) = handler.poll(context) {
                        // A future that is ready may still hold what it works on, such as a timeout its handler.
                        this.step.set(Step::Ended);
                        let Passage { admissions, shadow } = take(this.passage);
                        let mut response = answered(response?, admissions, this.style);
                        if let Some(refusal) = shadow {
                            let status = HeaderValue::from(refusal.status().as_u16());
                            response.headers_mut().insert(SHADOW, status);
                        }
                        return Poll::Ready(Ok(response));
                    }
                    Refusal::Superseded
                }
                // Polled after the end.
                StepProjection::Ended => return Poll::Pending,
            };
            let admissions = &this.passage.admissions;
            if !admissions.first().is_some_and(|it| it.may_be_stopped) {
                return Poll::Pending;
            }
            let superseded = this.superseded.get_or_insert_with(|| superseded(admissions));
            break Ok(cut_off(ready!(superseded.poll_unpin(context))));
        };
        // The rest of the request is dropped before newer ones are admitted.
        this.step.set(Step::Ended);
        *this.call = None;
        *this.passage = Passage::default();
        Poll::Ready(outcome.map(|refusal| refusal.answer(this.style, FenceBody::refusal)))
    }
}
