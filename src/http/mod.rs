//! tower: stale or unfenced requests never reach the handler.
//!
//! [`FenceLayer`] reads the token from the header `Fencing-Token: 34` (or gRPC metadata
//! `fencing-token`), asks the [`Fence`](crate::fence::Fence), and lets the request through with
//! [`Fenced`] in its extensions. What it refuses is answered as `application/problem+json`
//! (RFC 9457):
//!
//! | refused because | HTTP | gRPC |
//! |---|---|---|
//! | a newer token was seen | 412 | `ABORTED` |
//! | a newer token came while the handler was at it, and the fence drops older requests: in doubt | 503 | `UNKNOWN` |
//! | no token where one is required | 428 | `FAILED_PRECONDITION` |
//! | token malformed, zero, out of range or sent twice; resource malformed | 400 | `INVALID_ARGUMENT` |
//! | marks unreachable or full, older requests that do not end | 503, `Retry-After` | `UNAVAILABLE` |
//!
//! The client side of it: [`attach`] and [`Problem`].
//!
//! # Fencing
//! - The layer is a fence for what the inner service does until its response has ended.
//!   Tasks that a handler spawns and upgraded connections go on outside of it.
//! - Between processes the layer does not close the gap between check and write: there,
//!   `fencing::sql::admit` in the transaction that writes does.
//! - The extractor must give one resource one name. If a handler takes `/files/a` and
//!   `/files/%61` for the same file, so must the extractor, as [`path`] does.
//! - A token is believed: whoever may send one may lock everybody else out with a large
//!   one. Put the layer behind authentication, and on routes that exist (`route_layer`).
//! - An older request that does not end (a client paused in the middle of its upload)
//!   holds a newer one up to the fence's limit. Bound request times, or let the fence
//!   [drop older](crate::fence::Fence::drop_older) requests.

mod attach;
mod body;
mod extract;
mod future;
mod layer;
mod path;
mod problem;
mod reject;
mod service;

pub use attach::{HEADER, attach};
pub use body::{FenceBody, FenceBodyError};
pub use extract::{Fenced, NotFenced};
pub use future::FenceFuture;
pub use layer::{FenceLayer, Require};
pub use path::{PathError, path};
pub use problem::{Problem, ProblemError};
pub use reject::Refusal;
pub use service::FenceService;
