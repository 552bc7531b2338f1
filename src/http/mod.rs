//! A tower layer that refuses stale and unfenced requests before your handlers.
//!
//! [`FenceLayer`] reads the token from the header `Fencing-Token: 34` (or the gRPC metadata `fencing-token`), asks the
//! [`Fence`](crate::fence::Fence), and admits the request with [`Fenced`] in its extensions.
//!
//! ```
//! use axum::{Router, routing::put};
//! use fencing::fence::MemoryMarks;
//! use fencing::http::{self, FenceLayer, Fenced};
//! use fencing::Fence;
//!
//! async fn write_file(Fenced { resource, token, .. }: Fenced) -> String {
//!     format!("token {token} may write {resource}")
//! }
//!
//! let fence = Fence::new(MemoryMarks::default());
//! let app: Router = Router::new()
//!     .route("/files/{name}", put(write_file).route_layer(FenceLayer::new(fence, http::path)));
//! ```
//!
//! Put it around the methods of a route, as here. Then the fence sees only requests that have a handler. Around a whole
//! router (`Router::route_layer`) it also sees methods that the route does not have: their tokens raise marks, and
//! without a token they get a 428, not the 405. Around everything (`Router::layer`) it also sees unknown paths.
//!
//! A refusal is `application/problem+json` (RFC 9457), or a gRPC status for a client that speaks gRPC. [`Refusal`] has
//! the reasons, [`Problem`] their kinds, and docs/reference/http.md (Refusals) the statuses.
//!
//! A client sends its token with [`attach`] and reads a refusal with [`Problem`]. An [`AttachLayer`] around its HTTP
//! client does both, and sends nothing after the lease has ended. A handler that checks the token in its own
//! transaction returns a [`Refusal`]: `?` converts the errors of `fencing::sql` and of sqlx, and the layer around it
//! sends the refusal. A handler that takes a [`Fenced`] and has no layer answers with a 500: see [`NotFenced`].
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # mod files {
//! use fencing::http::{Fenced, Refusal};
//! use fencing::sql;
//!
//! async fn write_file(pool: sqlx::SqlitePool, fenced: Fenced) -> Result<(), Refusal> {
//!     let mut tx = sql::begin(&pool, &fenced.resource, fenced.token).await?;
//!     sqlx::query("UPDATE files SET body = 'new'").execute(&mut *tx).await?;
//!     tx.commit().await?;
//!     Ok(())
//! }
//! # }
//! ```
//!
//! A gRPC client finds the same problem in the metadata ([`Problem::read_grpc`]). If a newer token cuts off its stream,
//! that ends with the status `UNKNOWN` and the problem in its trailers. For all others the body breaks off.
//!
//! # With other layers
//! docs/reference/http.md shows their order. Put authentication above the fence. Put a concurrency limit below it, and also a
//! layer that sheds load when the service is not ready: a waiting request then takes no slot, and a newer one can end
//! the requests that hold all slots. [`Fence::waiters`](crate::fence::Fence::waiters) bounds the waiting requests.
//!
//! A refusal is sent before the upload is read, and then the server closes the connection. Let clients send `Expect:
//! 100-continue` with large uploads (curl does): otherwise they may see a broken pipe in place of the answer.
//!
//! # Fencing
//! - The layer fences what the inner service does until its response has ended: not tasks that a handler spawns, not
//!   blocking work (a handler is dropped only at an `.await`), and not upgraded connections.
//! - Between processes only a check in the transaction that writes closes the gap between check and write:
//!   `fencing::sql::admit`, or a [`TransactionLayer`] below this one.
//! - The extractor must give one resource one name, as [`path()`] does. Below axum's `nest` only
//!   [`matched`](fn@matched) sees the whole path.
//! - The layer cannot tell an invented token from an issued one, and a very large one locks all others out. Let the
//!   fence [ask the lock service](crate::fence::Fence::check_sequencer), or set a
//!   [ceiling](crate::fence::Fence::ceiling).
//! - A read that carries a token raises the mark, unless its policy [ignores reads](Policy::ignoring_reads).
//! - An older request that does not end delays newer ones, unless the fence [drops
//!   it](crate::fence::Fence::drop_older_after) after a grace.

mod admissions;
mod answer;
mod attach;
mod body;
mod extract;
mod future;
mod header;
mod layer;
mod name;
mod path;
mod problem;
mod service;
mod transaction;

#[doc(hidden)]
pub use admissions::Passage;
pub use answer::Refusal;
#[doc(hidden)]
pub use answer::is_grpc;
pub use attach::{AttachError, AttachLayer, AttachService};
pub use body::{FenceBody, FenceBodyError};
pub use extract::{Fenced, NotFenced};
pub use future::FenceFuture;
pub use header::{HEADER, SEQUENCER, SHADOW, attach, attach_all, attach_sequencer};
pub use layer::{FenceLayer, Policy, Resources};
pub use name::{NameLayer, NameService, named};
pub use path::{PathError, matched, path, segments};
pub use problem::{Problem, ProblemError};
pub use service::FenceService;
pub use transaction::{InTransaction, OpenTransaction, TransactionLayer, TransactionService};
