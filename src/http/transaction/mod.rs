//! A layer that opens a fenced transaction for each request, and ends it.

mod extract;
mod layer;
mod lingering;
mod service;
mod slot;

pub use extract::{InTransaction, NoTransaction, OpenTransaction};
pub use layer::TransactionLayer;
pub use service::TransactionService;
