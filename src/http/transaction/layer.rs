use tower_layer::Layer;

use super::TransactionService;

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
/// A commit that fails is a 503: [`Problem::IN_DOUBT`](crate::http::Problem::IN_DOUBT) if the database did
/// not report whether it committed, [`CONFLICT`](crate::http::Problem::CONFLICT) where another transaction
/// conflicts, and [`ROLLED_BACK`](crate::http::Problem::ROLLED_BACK) if a statement had failed and the
/// handler ignored it. Each counts in `fencing_admissions_total` with `layer="http"`.
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
/// - A transaction that is rolled back leaves no mark in the database, unless the request is about several resources:
///   an older token may still write.
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
