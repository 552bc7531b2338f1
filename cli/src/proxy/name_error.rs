use std::fmt::Display;

/// Why a request names no resource, in words for the client.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct UnnamedPath(String);

impl UnnamedPath {
    pub(super) fn new(why: impl Display) -> UnnamedPath {
        UnnamedPath(why.to_string())
    }
}
