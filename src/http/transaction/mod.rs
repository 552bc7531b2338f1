//! A layer that opens a fenced transaction for each request, and ends it.

mod handle;
mod layer;
mod service;

pub use handle::{InTransaction, OpenTransaction};
pub use layer::TransactionLayer;
pub use service::TransactionService;
