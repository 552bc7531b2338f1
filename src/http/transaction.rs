use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use tower_layer::Layer;
use tower_service::Service;

use super::answer::{refusal_of_handler, replace_answer};
use super::extract::find;
use super::service::take_ready;
use super::{FenceBody, Fenced, NotFenced, Refusal};
use crate::background::to_the_end;
use crate::fence::{CommitError, FenceError, Transactions};

/// Opens a transaction for each request that its [`FenceLayer`](crate::http::FenceLayer) has admitted,
/// checks the token in it, gives it to the handler, and commits it before the response goes out.
///
/// It is the whole fence between any number of processes, if the handler writes only in this transaction. `T` is
/// a pool of `sqlx`, or another storage that implements [`Transactions`](crate::fence::Transactions). Put it
/// directly around the handler, and the fence around it:
///
/// ```
/// # #[cfg(feature = "postgres")]
/// # mod files {
/// use axum::{Router, routing::put};
/// use fencing::fence::MemoryMarks;
/// use fencing::http::{self, FenceLayer, Fenced, InTransaction, Refusal, TransactionLayer};
/// use fencing::Fence;
/// use sqlx::PgPool;
///
/// async fn write_file(
///     fenced: Fenced,
///     mut tx: InTransaction<PgPool>,
///     body: String,
/// ) -> Result<(), Refusal> {
///     let write = sqlx::query("UPDATE files SET body = $1 WHERE path = $2");
///     write.bind(body).bind(fenced.resource.as_str()).execute(&mut **tx).await?;
///     Ok(())
/// }
///
/// fn app(pool: PgPool) -> Router {
///     let fence = Fence::new(MemoryMarks::default());
///     let handler = put(write_file)
///         .route_layer(TransactionLayer::new(pool))
///         .route_layer(FenceLayer::new(fence, http::path)); // the last is outermost
///     Router::new().route("/files/{name}", handler)
/// }
/// # }
/// ```
///
/// | the handler | the transaction |
/// |---|---|
/// | answers with 2xx or 3xx | is committed; then the head of the response goes out |
/// | answers with anything else, or with a `grpc-status` other than 0 in the head | is rolled back; then the response goes out |
/// | fails or panics | is rolled back |
/// | is dropped (a timeout, a newer request, a client that disconnects) | is rolled back; in doubt during its commit |
/// | answers with success while the transaction is still borrowed | is not committed: a 500 |
///
/// A commit that fails is a 503, with the kind of problem that says whether it is stored
/// ([`CommitError`](crate::fence::CommitError)), and counts in `fencing_admissions_total` with `layer="http"`.
///
/// docs/reference/http.md says what can block, what a stream may do, and how errors end a transaction.
///
/// - A body that reads from the database needs a connection of its own: it comes after the commit.
/// - A task or a body that has taken the transaction keeps its locks, and so holds up newer tokens, until it lets go.
///   Nothing that it writes is ever stored.
/// - A request without a token that the fence lets pass has no transaction: [`InTransaction`](super::InTransaction)
///   answers it with a 428, and `Option<InTransaction>` is `None`. One with a token has a transaction, even if it only
///   reads. SQLite has one writer at a time: let the fence [ignore reads](crate::http::Policy::ignoring_reads) there.
/// - A request keeps a connection of the pool from its admission to its commit, its upload included. Take no second
///   connection in the handler, and no second `sql::begin`: it would wait for this transaction, which waits for the
///   handler. With two of these layers around one handler, every request gets a 500.
/// - On MySQL the handler of a dropped request continues for up to two seconds, then is rolled back: sqlx 0.9 loses a
///   connection for good if its future is dropped while it prepares a statement. So put no timeout between this layer
///   and the handler there, but above this layer.
/// - A transaction rolled back leaves no mark, unless there are several resources: an older token may still write.
/// - In shadow mode the fence refuses nothing, but this layer does.
///
/// **Fencing.** Do not end the transaction in the handler (`COMMIT`, or on MySQL a statement that creates or alters a
/// table): later writes are not fenced. The layer detects this at the end. On MySQL it then answers that the request is
/// in doubt. Writes elsewhere, by another connection or to another service, are not part of it.
///
/// On PostgreSQL the transaction presents its token to protected tables: of several
/// [resources](crate::http::Resources), that of the first by name. For the others, and on MySQL, call
/// `fencing::sql::present` before the statements.
#[derive(Debug, Clone)]
pub struct TransactionLayer<T> {
    storage: T,
}

impl<T> TransactionLayer<T> {
    /// Opens transactions of this pool.
    pub fn new(storage: T) -> TransactionLayer<T> {
        TransactionLayer { storage }
    }
}

impl<S, T: Clone> Layer<S> for TransactionLayer<T> {
    type Service = TransactionService<S, T>;

    fn layer(&self, inner: S) -> TransactionService<S, T> {
        TransactionService { inner, storage: self.storage.clone() }
    }
}

/// A service behind a [`TransactionLayer`].
#[derive(Debug, Clone)]
pub struct TransactionService<S, T> {
    inner: S,
    storage: T,
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let extensions = request.extensions();
        let fenced = match find::<Fenced>(extensions).cloned() {
            // The inner transaction would wait for the outer one, which waits for the handler.
            Ok(_) if extensions.get::<OpenTransaction<T>>().is_some() => {
                return misconfigured("the handler has two TransactionLayers; remove one");
            }
            Ok(fenced) => fenced,
            Err(NotFenced::NoToken) => {
                let passed = inner.call(request);
                return async move { Ok(passed.await?.map(FenceBody::passing)) }.boxed();
            }
            Err(_) => {
                return misconfigured(
                    "the FenceLayer must be outside the TransactionLayer: the last `route_layer` is the outermost",
                );
            }
        };
        let storage = self.storage.clone();
        async move {
            let owner = match storage.begin(&fenced.sequencers()).await {
                // It ends when this is dropped, or when its present borrower returns it.
                Ok(transaction) => Arc::new(Mutex::new(transaction)),
                Err(error) => return Ok(not_begun(fenced, error)),
            };
            request.extensions_mut().insert(OpenTransaction::<T>(Arc::downgrade(&owner)));
            let handler = inner.call(request);
            // If this is dropped, the handler has its grace, and no future is left to commit what it wrote.
            let answered = match T::GRACE {
                Duration::ZERO => handler.await,
                grace => to_the_end(handler, |handler| timeout(grace, handler)).await,
            };
            end::<T, _, _>(owner, answered).await
        }
        .boxed()
    }
}

/// Answers a request whose handler has the wrong layers.
fn misconfigured<R: Send + 'static, E: Send + 'static>(
    error: &str,
) -> BoxFuture<'static, Result<Response<FenceBody<R>>, E>> {
    tracing::error!(error, "request not carried out");
    let mut response = Response::new(FenceBody::refusal(None));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    ready(Ok(response)).boxed()
}

/// Answers a request whose token is stale, or whose transaction could not be opened.
fn not_begun<R>(fenced: Fenced, error: FenceError) -> Response<FenceBody<R>> {
    let refusal = Refusal::before_the_handler(fenced.resource, fenced.token, error);
    if let Refusal::Unavailable { .. } | Refusal::NotSetUp(_) = &refusal {
        tracing::error!(error = %refusal, "no transaction begun");
    }
    refusal.answer_below(FenceBody::refusal)
}

/// A handle to the transaction of a request, for services that do not use axum's extractors: you
/// find it in the request's extensions. You may keep it: it holds no transaction open.
#[derive(derive_more::Debug)]
#[debug("OpenTransaction {{ .. }}")]
pub struct OpenTransaction<T: Transactions>(Weak<Mutex<T::Transaction>>);

impl<T: Transactions> OpenTransaction<T> {
    /// Takes the transaction, until what this returns is dropped. Returns `None` while another user
    /// has the transaction, and once the response has been made.
    pub fn take(&self) -> Option<InTransaction<T>> {
        self.0.upgrade()?.try_lock_owned().ok().map(InTransaction)
    }
}

impl<T: Transactions> Clone for OpenTransaction<T> {
    fn clone(&self) -> OpenTransaction<T> {
        OpenTransaction(Weak::clone(&self.0))
    }
}

/// The transaction of a request behind a [`TransactionLayer`](super::TransactionLayer), as an axum extractor.
/// It is a `sqlx::Transaction` in which the token is admitted: run statements on `&mut **tx`.
///
/// The layer ends it. Drop it before the response is made (a handler that takes it by value does so):
/// a transaction that is kept longer is never committed.
///
/// Take `Option<InTransaction<_>>` where a token may be missing, as in a read.
#[derive(derive_more::Debug, derive_more::Deref, derive_more::DerefMut)]
#[debug("InTransaction {{ .. }}")]
#[deref(forward)]
#[deref_mut(forward)]
pub struct InTransaction<T: Transactions>(OwnedMutexGuard<T::Transaction>);

impl<S: Sync, T: Transactions> FromRequestParts<S> for InTransaction<T> {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotFenced> {
        find::<OpenTransaction<T>>(&parts.extensions)?.take().ok_or(NotFenced::Taken)
    }
}

impl<S: Sync, T: Transactions> OptionalFromRequestParts<S> for InTransaction<T> {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, NotFenced> {
        match <Self as FromRequestParts<S>>::from_request_parts(parts, state).await {
            Ok(transaction) => Ok(Some(transaction)),
            Err(NotFenced::NoToken) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Time for which an answer waits for the rollback. A longer rollback continues without the request.
const ROLLBACK: Duration = Duration::from_secs(1);

/// Commits what a successful handler has written, unless something still holds the transaction. Otherwise rolls it back.
async fn end<T: Transactions, R, E>(
    owner: Arc<Mutex<T::Transaction>>,
    answered: Result<Response<R>, E>,
) -> Result<Response<FenceBody<R>>, E>
where
    R: Body + Send + 'static,
    R::Data: From<Bytes>,
{
    let transaction = Arc::into_inner(owner).map(Mutex::into_inner);
    if !answered.as_ref().is_ok_and(is_success) {
        if let Some(transaction) = transaction {
            // A statement that the handler abandoned may delay it.
            drop(timeout(ROLLBACK, T::rollback(transaction)).await);
        }
        return answered.map(rolled_back);
    }
    let refusal = match transaction {
        None => Refusal::Kept,
        Some(transaction) => match T::commit(transaction).await {
            Ok(()) => return answered.map(|response| response.map(FenceBody::passing)),
            Err(CommitError::Conflict(cause)) => Refusal::Conflict(cause.into()),
            Err(CommitError::RolledBack(cause)) => Refusal::RolledBack(cause.into()),
            Err(CommitError::InDoubt(cause)) => Refusal::InDoubt(cause.into()),
        },
    };
    // If the body has kept the transaction, this ends it.
    drop(answered);
    // The handler never learns of it.
    tracing::error!(%refusal, "request not committed");
    refusal.count();
    Ok(refusal.answer_below(FenceBody::refusal))
}

/// Makes the answer of a handler that has failed, and whose transaction has been rolled back.
fn rolled_back<R: Body + Send + 'static>(mut response: Response<R>) -> Response<FenceBody<R>>
where
    R::Data: From<Bytes>,
{
    let refusal = match refusal_of_handler(&mut response) {
        None => return response.map(FenceBody::passing),
        Some(Refusal::Failed(cause)) if matches!(cause.downcast_ref(), Some(FenceError::Conflict(_))) => {
            Refusal::Conflict(cause)
        }
        Some(refusal) => refusal,
    };
    replace_answer(response, refusal.answer_below(FenceBody::refusal))
}

/// Whether the handler succeeded. A gRPC service that fails at once says so in the head.
fn is_success<R>(response: &Response<R>) -> bool {
    let status = response.status();
    let grpc = response.headers().get("grpc-status").map_or(&b"0"[..], HeaderValue::as_bytes);
    (status.is_success() || status.is_redirection()) && grpc == b"0"
}
