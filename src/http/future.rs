use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::admissions::{self, Admissions};
use super::answer::{answer_anew, of_the_handler};
use super::refusal::Style;
use super::{FenceBody, Fenced, Refusal, SHADOW};
use crate::fence::{Begun, Fence, Stale};
use crate::sequencer::Sequencer;

/// A request in flight, until this is dropped.
struct AdmittedRequest {
    /// Made when the request has to wait for something.
    superseded: Option<BoxFuture<'static, Stale>>,
    admissions: Admissions,
}

impl From<Admissions> for AdmittedRequest {
    fn from(admissions: Admissions) -> AdmittedRequest {
        AdmittedRequest { superseded: None, admissions }
    }
}

impl AdmittedRequest {
    /// Waits until the request must stop, because a newer one came.
    fn poll_superseded(&mut self, context: &mut Context<'_>) -> Poll<Stale> {
        let AdmittedRequest { superseded, admissions } = self;
        if !admissions.may_be_stopped() {
            return Poll::Pending;
        }
        superseded.get_or_insert_with(|| admissions.superseded()).poll_unpin(context)
    }
}

pin_project! {
    /// The response of a [`FenceService`](super::FenceService).
    ///
    /// It waits for the fence, then for the inner service. A refusal is a response, and never
    /// an error.
    ///
    /// # Cancel safety
    /// If you drop the future, it drops the request first, and then lets newer ones in.
    pub struct FenceFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        stage: Stage<S, B, S::Future>,
        style: Style,
        // What a layer in shadow mode would have answered.
        would_be: Option<Refusal>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, B, F> {
        Refused { refusal: Option<Refusal> },
        Admitting {
            admit: BoxFuture<'static, Result<Admissions, Refusal>>,
            waiting: Option<Waiting<S, B>>,
        },
        Observing {
            observe: BoxFuture<'static, Result<(), Refusal>>,
            waiting: Option<Waiting<S, B>>,
        },
        // The request ends before newer ones are let in, here and below. One that carries no token
        // is not admitted.
        Readying { waiting: Option<Waiting<S, B>>, admitted: Option<AdmittedRequest> },
        Running { #[pin] future: F, admitted: Option<AdmittedRequest> },
    }
}

/// A request whose handler is not called yet. The service below is asked whether it is ready when
/// the request is admitted: those that wait have no place in a limit there.
pub(super) struct Waiting<S, B> {
    pub(super) request: Request<B>,
    pub(super) service: S,
}

impl<S: Service<Request<B>>, B> fmt::Debug for FenceFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceFuture").finish_non_exhaustive()
    }
}

impl<S, B> FenceFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn refused(refusal: Refusal, style: Style) -> FenceFuture<S, B> {
        FenceFuture { stage: Stage::Refused { refusal: Some(refusal) }, style, would_be: None }
    }

    /// Lets a request pass that carries no token, or in shadow mode one that would be refused.
    pub(super) fn passing(
        waiting: Waiting<S, B>,
        would_be: Option<Refusal>,
        style: Style,
    ) -> FenceFuture<S, B> {
        would_be.iter().for_each(tell);
        let stage = Stage::Readying { waiting: Some(waiting), admitted: None };
        FenceFuture { stage, style, would_be }
    }

    /// Asks the fence, and lets the request pass whatever it says.
    pub(super) fn observing(
        fence: Fence,
        fenced: Fenced,
        waiting: Waiting<S, B>,
        style: Style,
    ) -> FenceFuture<S, B> {
        let observe = async move {
            let mut seen = Ok(());
            for Sequencer { resource, token } in in_order(&fenced) {
                let outcome = fence.observe(&resource, token).await;
                seen = seen.and(
                    outcome.map_err(|error| Refusal::before_the_handler(resource, token, error)),
                );
            }
            seen
        };
        let stage = Stage::Observing { observe: observe.boxed(), waiting: Some(waiting) };
        FenceFuture { stage, style, would_be: None }
    }

    /// Asks the fence, and waits only where it has to.
    pub(super) fn admitting(
        fence: &Fence,
        fenced: Fenced,
        waiting: Waiting<S, B>,
        style: Style,
    ) -> FenceFuture<S, B> {
        let begun = match fenced.one() {
            Some(Sequencer { resource, token }) => match fence.begin(&resource, token) {
                Begun::Ended(Ok(admission)) => {
                    let admitted = Some(Admissions::from(admission).into());
                    let stage = Stage::Readying { waiting: Some(waiting), admitted };
                    return FenceFuture { stage, style, would_be: None };
                }
                Begun::Ended(Err(error)) => {
                    let refusal = Refusal::before_the_handler(resource, token, error);
                    return FenceFuture::refused(refusal, style);
                }
                Begun::Open(open) => Some((Sequencer { resource, token }, open)),
            },
            None => None,
        };
        let fence = fence.clone();
        let admit = async move {
            match begun {
                Some((one, open)) => admissions::finish(&fence, one, open).await,
                None => admissions::admit(&fence, in_order(&fenced)).await,
            }
        };
        let stage = Stage::Admitting { admit: admit.boxed(), waiting: Some(waiting) };
        FenceFuture { stage, style, would_be: None }
    }
}

/// The order in which all requests are admitted.
fn in_order(fenced: &Fenced) -> Vec<Sequencer> {
    let mut sequencers = fenced.sequencers();
    sequencers.sort_by(|a, b| a.resource.cmp(&b.resource));
    sequencers
}

/// Tells what a layer in shadow mode would have refused.
fn tell(refusal: &Refusal) {
    tracing::info!(%refusal, "request would be refused");
    let outcome = refusal.shadow_label();
    metrics::counter!("fencing_admissions_total", "door" => "http", "outcome" => outcome)
        .increment(1);
}

/// Makes the layer's response of the handler's.
fn answered<R: Body + Send + 'static>(
    mut response: Response<R>,
    admitted: Option<AdmittedRequest>,
    style: &Style,
) -> Response<FenceBody<R>> {
    match (of_the_handler(&mut response), admitted) {
        (Some(refusal), _admitted) => {
            answer_anew(response, refusal.answer(style, FenceBody::refusal))
        }
        (None, Some(AdmittedRequest { admissions, .. })) => {
            response.map(|body| FenceBody::admitted(body, admissions, style))
        }
        (None, None) => response.map(FenceBody::passing),
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
        loop {
            let next = match this.stage.as_mut().project() {
                StageProjection::Refused { refusal } => match refusal.take() {
                    Some(refusal) => {
                        let response = refusal.answer(this.style, FenceBody::refusal);
                        return Poll::Ready(Ok(response));
                    }
                    // Polled after the end.
                    None => return Poll::Pending,
                },
                StageProjection::Admitting { admit, waiting } => match admit.poll_unpin(context) {
                    Poll::Ready(Ok(admissions)) => Stage::Readying {
                        waiting: waiting.take(),
                        admitted: Some(admissions.into()),
                    },
                    Poll::Ready(Err(refusal)) => Stage::Refused { refusal: Some(refusal) },
                    Poll::Pending => return Poll::Pending,
                },
                StageProjection::Observing { observe, waiting } => {
                    let seen = ready!(observe.poll_unpin(context));
                    *this.would_be = seen.err();
                    this.would_be.iter().for_each(tell);
                    Stage::Readying { waiting: waiting.take(), admitted: None }
                }
                StageProjection::Readying { waiting, admitted } => {
                    let Some(Waiting { request, mut service }) = waiting.take() else {
                        return Poll::Pending;
                    };
                    match service.poll_ready(context) {
                        Poll::Ready(Ok(())) => Stage::Running {
                            future: service.call(request),
                            admitted: admitted.take(),
                        },
                        Poll::Ready(Err(error)) => {
                            drop((request, service));
                            this.stage.set(Stage::Refused { refusal: None });
                            return Poll::Ready(Err(error));
                        }
                        Poll::Pending => {
                            *waiting = Some(Waiting { request, service });
                            let Some(admitted) = admitted else { return Poll::Pending };
                            let stale = ready!(admitted.poll_superseded(context));
                            Stage::Refused { refusal: Some(Refusal::Stale(stale)) }
                        }
                    }
                }
                StageProjection::Running { future, admitted } => {
                    // The handler first: what it has finished is no longer in doubt.
                    if let Poll::Ready(response) = future.poll(context) {
                        let admitted = admitted.take();
                        // A future that is ready may still hold what it works on, such as a
                        // timeout its handler.
                        this.stage.set(Stage::Refused { refusal: None });
                        return Poll::Ready(match response {
                            Ok(response) => {
                                let mut response = answered(response, admitted, this.style);
                                if let Some(refusal) = this.would_be {
                                    let status = HeaderValue::from(refusal.status().as_u16());
                                    response.headers_mut().insert(SHADOW, status);
                                }
                                Ok(response)
                            }
                            Err(error) => Err(error),
                        });
                    }
                    let Some(admitted) = admitted else { return Poll::Pending };
                    let stale = ready!(admitted.poll_superseded(context));
                    Stage::Refused { refusal: Some(Refusal::Superseded(stale)) }
                }
            };
            this.stage.set(next);
        }
    }
}
