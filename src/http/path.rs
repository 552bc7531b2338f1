use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::resource::{Resource, ResourceError};

/// Why a request's path names no resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The decoded path is not UTF-8.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// The decoded path breaks the rule of names.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// The resource that the path names: percent-decoded, without the slash at its beginning.
///
/// An extractor for [`FenceLayer`](super::FenceLayer) before routers that decode paths, as
/// axum's does: `/files/a` and `/files/%61` are one file there, and have to be one resource.
///
/// # Errors
/// [`PathError`] if the path is not UTF-8, or longer than a name may be.
pub fn path(parts: &Parts) -> Result<Resource, PathError> {
    let decoded = percent_decode_str(parts.uri.path()).decode_utf8();
    let decoded = decoded.map_err(|_| PathError::NotUtf8)?;
    Ok(Resource::new(decoded.strip_prefix('/').unwrap_or(&decoded))?)
}
