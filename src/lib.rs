//! Distributed locks done right: the whole fencing loop.

#![forbid(unsafe_code)]

pub mod fence;
pub mod quorum;
pub mod resource;
pub mod time;
pub mod token;

pub use resource::{Resource, ResourceError};
pub use token::{Token, TokenError};
