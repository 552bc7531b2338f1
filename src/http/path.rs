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
    #[error("the path of the request must be UTF-8 after percent-decoding")]
    NotUtf8,
    /// A segment of the decoded path is empty, `.` or `..`: the path would be a second name of another path's resource.
    #[error("a segment of the request's path is {segment:?}; send the path without it")]
    Segment {
        /// The segment: empty, `.` or `..`.
        segment: &'static str,
    },
    /// One of the [`segments`] has a slash in it: it would be several.
    #[error("a parameter of the request's path has a slash in it; send the path without it")]
    Slash,
    /// [`matched`](super::matched()) does not find what names the resource in the request's extensions: the server is
    /// set up wrongly. The client gets a 500.
    #[error("the server cannot find the route that names the resource")]
    NoRoute {
        /// The type of the route or of the URI, or the pattern whose parameter the route lacks.
        missing: &'static str,
    },
    /// The decoded path breaks the rule for names.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// Returns the resource that the path names: percent-decoded, without the slash at its beginning.
///
/// Use it as the extractor of a [`FenceLayer`](super::FenceLayer) in front of a router that decodes paths, as axum's
/// does: `/files/a` and `/files/%61` are one file there, and must be one resource.
///
/// One file has one name. A router that takes `/files/{*name}` for a path in a file system would reach `files/a` by
/// `/files//a`, `/files/./a` and `/files/b/../a` as well, however they are encoded. Such paths name nothing here.
///
/// Below axum's `nest` use [`matched`](super::matched()): this does not see its prefix. `/tenants/red/files/a` and
/// `/tenants/blue/files/a` would both be `files/a` and share a mark, and one tenant could shut out the other.
///
/// # Errors
/// Returns a [`PathError`] if the decoded path is not UTF-8, is not a valid [`Resource`], or
/// has a segment that is empty, `.` or `..`, as `files/a/` has at its end.
pub fn path(parts: &Parts) -> Result<Resource, PathError> {
    let path = decoded(parts.uri.path())?;
    checked(path.strip_prefix('/').unwrap_or(&path))
}

/// Returns the resource with these segments, joined by slashes: parameters of a path that a router has decoded, and
/// fixed parts. It is as strict as [`path()`]: `/files/{name}` would reach `files/a` by `/files/%2e%2fa` too.
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
/// A [`PathError`] if a segment is empty, `.` or `..`, or has a slash, or if they are no valid [`Resource`] together.
pub fn segments<S: AsRef<str>>(segments: impl IntoIterator<Item = S>) -> Result<Resource, PathError> {
    let segments: Vec<S> = segments.into_iter().collect();
    let segments: Vec<&str> = segments.iter().map(S::as_ref).collect();
    if segments.iter().any(|segment| segment.contains('/')) {
        return Err(PathError::Slash);
    }
    checked(&segments.join("/"))
}

/// Returns an extractor that names the resource by the parameters of the route: `files/{name}` with the
/// text of the route's parameter `{name}`. All routes that lead to one file give it one name.
///
/// `M` is the route that the router has matched, of which `template` gives the text, and `U` is the whole
/// URI. Both are in the request's extensions: axum's `MatchedPath` and `OriginalUri`, also below
/// `nest`. A parameter `{name}` is one segment, and `{*name}` all that follow; they are decoded.
///
/// ```
/// use axum::extract::{MatchedPath, OriginalUri};
/// use axum::{Router, routing::put};
/// use fencing::Fence;
/// use fencing::fence::MemoryMarks;
/// use fencing::http::{self, FenceLayer};
///
/// # async fn write_file() {}
/// let file = http::matched::<MatchedPath, OriginalUri>(MatchedPath::as_str, "files/{name}");
/// let write = put(write_file).route_layer(FenceLayer::new(Fence::new(MemoryMarks::default()), file));
/// // `/v1/files/a` and `/v2/files/a` are both `files/a`.
/// let app: Router = Router::new().route("/{version}/files/{name}", write);
/// ```
///
/// # Errors
/// The extractor returns a [`PathError`] as [`segments`] does, and [`PathError::NoRoute`], a logged 500, if the request
/// has no route or no URI of these types, or the route has no such parameter.
pub fn matched<M, U>(
    template: fn(&M) -> &str,
    pattern: &'static str,
) -> impl Fn(&Parts) -> Result<Resource, PathError> + Clone
where
    M: Clone + Send + Sync + 'static,
    U: Deref<Target = Uri> + Clone + Send + Sync + 'static,
{
    move |parts| {
        let route = parts.extensions.get::<M>().map(template);
        let route = route.ok_or(PathError::NoRoute { missing: type_name::<M>() })?;
        let uri = parts.extensions.get::<U>();
        let uri = uri.ok_or(PathError::NoRoute { missing: type_name::<U>() })?;
        let mut name = Vec::new();
        for part in pattern.split('/') {
            match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                None => name.push(part.to_owned()),
                Some(parameter) => {
                    let found = parameter_of(route, uri.path(), parameter)?;
                    name.extend(found.ok_or(PathError::NoRoute { missing: pattern })?);
                }
            }
        }
        segments(name)
    }
}

/// Finds the segments of the path that match a parameter of the route.
fn parameter_of(route: &str, path: &str, parameter: &str) -> Result<Option<Vec<String>>, PathError> {
    let mut rest = path;
    for part in route.split('/') {
        let (segment, following) = rest.split_once('/').unwrap_or((rest, ""));
        let found = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        if found == Some(parameter) {
            return Ok(Some(vec![decoded(segment)?.into_owned()]));
        } else if found.and_then(|found| found.strip_prefix('*')) == Some(parameter) {
            return Ok(Some(decoded(rest)?.split('/').map(str::to_owned).collect()));
        }
        rest = following;
    }
    Ok(None)
}

fn decoded(text: &str) -> Result<Cow<'_, str>, PathError> {
    percent_decode_str(text).decode_utf8().map_err(|_| PathError::NotUtf8)
}

fn checked(name: &str) -> Result<Resource, PathError> {
    let resource = Resource::new(name)?;
    let has = |segment: &&str| resource.as_str().split('/').any(|found| found == *segment);
    match ["", ".", ".."].into_iter().find(has) {
        Some(segment) => Err(PathError::Segment { segment }),
        None => Ok(resource),
    }
}
