//! The client side: a layer that gives each request the token of its lease.

mod body;
mod error;
mod layer;

pub use body::AttachBody;
pub use error::AttachError;
pub use layer::{AttachLayer, AttachService, within};
