use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::resource::{Resource, ResourceError};

/// Why the path of a request does not name a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The decoded path is not UTF-8.
    #[error("the path of the request must be UTF-8 when it is percent-decoded")]
    NotUtf8,
    /// The decoded path breaks the rule for names.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// Returns the resource that the path names: percent-decoded, without the slash at its
/// beginning.
///
/// Use it as the extractor of a [`FenceLayer`](super::FenceLayer) in front of a router that
/// decodes paths, as axum's does: `/files/a` and `/files/%61` are one file there, and must be
/// one resource.
///
/// # Errors
/// Returns a [`PathError`] if the decoded path is not UTF-8 or not a valid
/// [`Resource`].
pub fn path(parts: &Parts) -> Result<Resource, PathError> {
    let decoded = percent_decode_str(parts.uri.path()).decode_utf8();
    let decoded = decoded.map_err(|_| PathError::NotUtf8)?;
    Ok(Resource::new(decoded.strip_prefix('/').unwrap_or(&decoded))?)
}
