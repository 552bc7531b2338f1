use std::fmt::Display;

/// Why a request names no resource, in words for the client.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct NameError(String);

impl NameError {
    pub(super) fn new(why: impl Display) -> NameError {
        NameError(why.to_string())
    }
}
