use crate::resource::Resource;
use crate::token::Token;

/// A refusal: the storage has seen a newer token of this resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("token {presented} of {resource} is stale, high water {highest}")]
pub struct Stale {
    /// What was to be written.
    pub resource: Resource,
    /// The token that was presented.
    pub presented: Token,
    /// The highest token seen so far; greater than `presented`.
    pub highest: Token,
}
