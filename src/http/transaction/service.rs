use std::mem::replace;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tower_service::Service;

use super::OpenTransaction;
use crate::background::to_the_end;
use crate::fence::{CommitError, FenceError, Transactions};
use crate::http::answer::{refusal_of_handler, replace_answer};
use crate::http::extract::find;
use crate::http::{FenceBody, Fenced, NotFenced, Refusal};

/// A service behind a [`TransactionLayer`](super::TransactionLayer).
#[derive(Debug, Clone)]
pub struct TransactionService<S, T> {
    pub(super) inner: S,
    pub(super) storage: T,
}

impl<S, T, B, R> Service<Request<B>> for TransactionService<S, T>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    T: Transactions,
    B: Send + 'static,
    R: Body + Send + 'static,
    R::Data: From<Bytes>,
{
    type Response = Response<FenceBody<R>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Calls the service that said it is ready, and keeps the clone.
        let next = self.inner.clone();
        let mut inner = replace(&mut self.inner, next);
        let extensions = request.extensions();
        let error = match find::<Fenced>(extensions).cloned() {
            // The inner transaction would wait for the outer one, which waits for the handler.
            Ok(_) if extensions.get::<OpenTransaction<T>>().is_some() => {
                "the handler has two TransactionLayers; remove one"
            }
            Ok(fenced) => {
                let storage = self.storage.clone();
                return async move { run(&mut inner, &storage, fenced, request).await }.boxed();
            }
            Err(NotFenced::NoToken) => {
                let passed = inner.call(request);
                return async move { Ok(passed.await?.map(FenceBody::passing)) }.boxed();
            }
            Err(_) => {
                "the FenceLayer must be outside the TransactionLayer: the last `route_layer` is \
                 the outermost"
            }
        };
        tracing::error!(error, "request not carried out");
        let mut response = Response::new(FenceBody::refusal(None));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        ready(Ok(response)).boxed()
    }
}

/// Time for which an answer waits for the rollback. A longer rollback continues without the request.
const ROLLBACK: Duration = Duration::from_secs(1);

/// Runs one request in a transaction. If the future is dropped, the handler has its grace, and what it wrote is rolled
/// back: no future is left to commit it.
async fn run<S, T, B, R>(
    inner: &mut S,
    storage: &T,
    fenced: Fenced,
    mut request: Request<B>,
) -> Result<Response<FenceBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + 'static,
    S::Future: Send,
    S::Error: Send,
    T: Transactions,
    B: 'static,
    R: Body + Send + 'static,
    R::Data: From<Bytes>,
{
    let owner = match storage.begin(&fenced.sequencers()).await {
        // When this is dropped, the transaction ends, or when its present borrower returns it.
        Ok(transaction) => Arc::new(Mutex::new(transaction)),
        Err(error) => {
            let refusal = Refusal::before_the_handler(fenced.resource, fenced.token, error);
            if let Refusal::Unavailable { .. } | Refusal::NotSetUp(_) = &refusal {
                tracing::error!(error = %refusal, "no transaction begun");
            }
            return Ok(refusal.answer_below(FenceBody::refusal));
        }
    };
    request.extensions_mut().insert(OpenTransaction::<T>(Arc::downgrade(&owner)));
    let handler = inner.call(request);
    let answered = match T::GRACE {
        Duration::ZERO => handler.await,
        grace => to_the_end(handler, |handler| timeout(grace, handler)).await,
    };
    let response = match answered {
        Ok(response) if is_success(&response) => response,
        failed => {
            if let Some(transaction) = Arc::into_inner(owner) {
                // A statement that the handler abandoned may delay it.
                drop(timeout(ROLLBACK, T::rollback(transaction.into_inner())).await);
            }
            return Ok(rolled_back(failed?));
        }
    };
    Ok(match commit::<T>(owner).await {
        Ok(()) => response.map(FenceBody::passing),
        Err(refusal) => {
            // If the body has kept the transaction, this ends it.
            drop(response);
            // The handler never learns of it.
            tracing::error!(%refusal, "request not committed");
            refusal.count();
            refusal.answer_below(FenceBody::refusal)
        }
    })
}

/// Commits what the handler has written, unless something still holds the transaction.
async fn commit<T: Transactions>(owner: Arc<Mutex<T::Transaction>>) -> Result<(), Refusal> {
    match Arc::into_inner(owner) {
        Some(transaction) => T::commit(transaction.into_inner()).await.map_err(Refusal::from_commit),
        None => Err(Refusal::Kept),
    }
}

/// Makes the answer of a handler that has failed, and whose transaction has been rolled back.
fn rolled_back<R: Body + Send + 'static>(mut response: Response<R>) -> Response<FenceBody<R>>
where
    R::Data: From<Bytes>,
{
    match refusal_of_handler(&mut response) {
        Some(refusal) => {
            let answer = refusal.rolled_back().answer_below(FenceBody::refusal);
            replace_answer(response, answer)
        }
        None => response.map(FenceBody::passing),
    }
}

/// Whether the handler succeeded. A gRPC service that fails at once says so in the head.
fn is_success<R>(response: &Response<R>) -> bool {
    let status = response.status();
    let grpc = response.headers().get("grpc-status").map_or(&b"0"[..], HeaderValue::as_bytes);
    (status.is_success() || status.is_redirection()) && grpc == b"0"
}

impl Refusal {
    /// Returns a conflict if that was why the handler failed: its transaction has been rolled back by now.
    fn rolled_back(self) -> Refusal {
        match self {
            Refusal::Failed(cause) if matches!(cause.downcast_ref(), Some(FenceError::Conflict(_))) => {
                Refusal::Conflict(cause)
            }
            refusal => refusal,
        }
    }

    fn from_commit(error: CommitError) -> Refusal {
        match error {
            CommitError::Conflict(cause) => Refusal::Conflict(cause.into()),
            CommitError::RolledBack(cause) => Refusal::RolledBack(cause.into()),
            CommitError::InDoubt(cause) => Refusal::InDoubt(cause.into()),
        }
    }
}
