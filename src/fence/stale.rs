use fencing_protocol::{Resource, Token};

/// A refusal: the storage has seen a newer token of this resource.
///
/// It comes from [`Stale::check`], so that `highest` is greater than `presented`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("token {presented} of {resource} is stale, high water {highest}")]
#[non_exhaustive]
pub struct Stale {
    /// The resource that the request was about.
    pub resource: Resource,
    /// The token that was presented.
    pub presented: Token,
    /// The highest token seen so far; greater than `presented`.
    pub highest: Token,
}

impl Stale {
    /// Compares a presented token with `highest`, the highest token seen of this resource:
    /// equal passes, lower is refused. If no token was seen, every token passes.
    ///
    /// Every fence of this crate decides by this comparison; inside a database its SQL does the same.
    ///
    /// **Fencing.** It compares and does nothing else. Compare and raise the mark in one atomic
    /// step, and write in that step or while no newer token is admitted.
    ///
    /// # Errors
    /// Returns the refusal if `presented` is lower than `highest`.
    pub fn check(resource: &Resource, presented: Token, highest: Option<Token>) -> Result<(), Stale> {
        match highest {
            Some(highest) if presented < highest => Err(Stale { resource: resource.clone(), presented, highest }),
            _ => Ok(()),
        }
    }
}
