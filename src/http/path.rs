use std::any::type_name;
use std::borrow::Cow;
use std::ops::Deref;

use fencing_protocol::{Resource, ResourceError};
use http::Uri;
use http::request::Parts;
use percent_encoding::percent_decode_str;

/// Why the path of a request does not name a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The decoded path is not UTF-8.
    #[error("the path of the request must be UTF-8 when it is percent-decoded")]
    NotUtf8,
    /// A segment of the decoded path is empty, `.` or `..`: the path would be a second name of
    /// another path's resource.
    #[error("a segment of the request's path is {segment:?}; send the path without it")]
    Segment {
        /// The segment: empty, `.` or `..`.
        segment: &'static str,
    },
    /// One of the [`segments`] has a slash in it: it would be several.
    #[error("a parameter of the request's path has a slash in it; send the path without it")]
    Slash,
    /// [`path_of`] or [`matched`](super::matched()) finds nothing that names the resource in the request's
    /// extensions: the server is misconfigured. The client gets a 500.
    #[error("the server found no URI or route that names the resource")]
    NoRoute {
        /// The type of the route or of the URI, or the pattern whose parameter the route lacks.
        missing: &'static str,
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
/// Below axum's `nest` use [`path_of`]: this one sees the path without the prefix of the nest.
///
/// # Errors
/// Returns a [`PathError`] if the decoded path is not UTF-8, is not a valid [`Resource`], or
/// has a segment that is empty, `.` or `..`, as `files/a/` has at its end.
pub fn path(parts: &Parts) -> Result<Resource, PathError> {
    name(&parts.uri)
}

/// Returns the resource that the path of another URI names. That URI is in the request's
/// extensions, as a `U`. The function does what [`path()`] does, with that URI.
///
/// Use it below axum's `nest`, with its `OriginalUri`. A nested router sees the path without its
/// prefix: for [`path()`], `/tenants/red/files/a` and `/tenants/blue/files/a` are both `files/a`.
/// They would share a mark, and one tenant could lock out the other.
///
/// ```
/// use axum::extract::OriginalUri;
/// use axum::{Router, routing::put};
/// use fencing::Fence;
/// use fencing::fence::MemoryMarks;
/// use fencing::http::{self, FenceLayer};
///
/// # async fn write_file() {}
/// let layer = FenceLayer::new(Fence::new(MemoryMarks::default()), http::path_of::<OriginalUri>);
/// let files = Router::new().route("/files/{name}", put(write_file).route_layer(layer));
/// let app: Router = Router::new().nest("/tenants/{tenant}", files);
/// ```
///
/// If the whole path is not the name either, such as under `/v1/files/a` and `/v2/files/a`, name the resource by the
/// path's parameters, with [`matched`](super::matched()). If the name needs a lookup, do that in a
/// [`NameLayer`](super::NameLayer), which may join the [`segments`].
///
/// # Errors
/// Returns a [`PathError`] as [`path()`] does, and [`PathError::NoRoute`] if there is no `U` in the
/// extensions: then a router of another version, or none, has seen the request. A
/// [`FenceLayer`](super::FenceLayer) answers that with a 500, and logs it.
pub fn path_of<U>(parts: &Parts) -> Result<Resource, PathError>
where
    U: Deref<Target = Uri> + Clone + Send + Sync + 'static,
{
    name(parts.extensions.get::<U>().ok_or(PathError::NoRoute { missing: type_name::<U>() })?)
}

/// Returns the resource with these segments, joined by slashes: parameters of a path that a router
/// has decoded, and fixed parts. It is as strict as [`path()`]: `/files/{name}` would reach `files/a` by
/// `/files/%2e%2fa` too.
///
/// ```
/// use fencing::http::{PathError, segments};
///
/// # fn main() -> Result<(), PathError> {
/// assert_eq!(segments(["files", "a"])?.as_str(), "files/a");
/// assert_eq!(segments(["files", "./a"]), Err(PathError::Slash));
/// // The parameter of `/files/{*name}` has several segments.
/// assert_eq!(segments(["files"].into_iter().chain("b/a".split('/')))?.as_str(), "files/b/a");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns a [`PathError`] if a segment is empty, `.` or `..`, or has a slash in it, or if they are
/// not a valid [`Resource`] together.
pub fn segments<S: AsRef<str>>(
    segments: impl IntoIterator<Item = S>,
) -> Result<Resource, PathError> {
    let mut name = String::new();
    for (number, segment) in segments.into_iter().enumerate() {
        let segment = segment.as_ref();
        if segment.contains('/') {
            return Err(PathError::Slash);
        }
        if number > 0 {
            name.push('/');
        }
        name.push_str(segment);
    }
    checked(&name)
}

pub(super) fn decoded(text: &str) -> Result<Cow<'_, str>, PathError> {
    percent_decode_str(text).decode_utf8().map_err(|_| PathError::NotUtf8)
}

fn name(uri: &Uri) -> Result<Resource, PathError> {
    let path = decoded(uri.path())?;
    checked(path.strip_prefix('/').unwrap_or(&path))
}

fn checked(name: &str) -> Result<Resource, PathError> {
    let resource = Resource::new(name)?;
    let has = |segment: &&str| resource.as_str().split('/').any(|found| found == *segment);
    match ["", ".", ".."].into_iter().find(has) {
        Some(segment) => Err(PathError::Segment { segment }),
        None => Ok(resource),
    }
}
