use std::any::type_name;
use std::ops::Deref;

use fencing_protocol::Resource;
use http::Uri;
use http::request::Parts;

use super::path::{PathError, decoded, segments};

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
/// The extractor returns a [`PathError`] as [`segments`] does, and [`PathError::NoRoute`] if the request
/// has no route or no URI of these types, or the route has no such parameter. A
/// [`FenceLayer`](super::FenceLayer) answers that with a 500, and logs it.
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
