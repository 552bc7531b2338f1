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
    /// A segment of the decoded path is empty, `.` or `..`: the path would be a second name of
    /// what another path names.
    #[error("a segment of the request's path is {segment:?}; send the path without it")]
    Segment {
        /// The segment: empty, `.` or `..`.
        segment: &'static str,
    },
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
/// One file has one name. A router that takes `/files/{*name}` for a path in a file system
/// would reach `files/a` by `/files//a`, `/files/./a` and `/files/b/../a` as well, however they
/// are encoded. Such paths name nothing here.
///
/// # Errors
/// Returns a [`PathError`] if the decoded path is not UTF-8, is not a valid [`Resource`], or
/// has a segment that is empty, `.` or `..`, as `files/a/` has at its end.
pub fn path(parts: &Parts) -> Result<Resource, PathError> {
    let decoded = percent_decode_str(parts.uri.path()).decode_utf8();
    let decoded = decoded.map_err(|_| PathError::NotUtf8)?;
    let resource = Resource::new(decoded.strip_prefix('/').unwrap_or(&decoded))?;
    for segment in ["", ".", ".."] {
        if resource.as_str().split('/').any(|found| found == segment) {
            return Err(PathError::Segment { segment });
        }
    }
    Ok(resource)
}
