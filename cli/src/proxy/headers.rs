use std::net::SocketAddr;

use axum::body::Body;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING, VIA};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body::Body as _;
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;

/// The headers of one connection, not of the message (RFC 9110, 7.6.1), besides those that `Connection` names.
const OF_THE_CONNECTION: &str = "connection, proxy-connection, keep-alive, http2-settings, te, transfer-encoding, \
                                 upgrade, proxy-authenticate, proxy-authorization";

/// Headers that some services take for the method or the path: they make a write of a read, or name another resource.
const OVERRIDES: &str = "x-http-method-override, x-http-method, x-method-override, x-method, x-original-url, \
                         x-rewrite-url, x-script-name";

/// Names a second resource, which COPY and MOVE of WebDAV write.
pub(super) const DESTINATION: HeaderName = HeaderName::from_static("destination");

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Takes away what some services read in another way than the fence: headers that override the
/// method or the path, and those with a character in their name that many servers take for a hyphen.
pub(super) fn clean(headers: &mut HeaderMap) {
    remove(headers, |name| {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        !plain || listed(OVERRIDES).any(|other| other == name)
    });
}

/// Takes the same from the trailers, which some servers put among the headers, and all that the fence has read: they
/// say nothing more under the name of a header, such as that of the resource.
fn trailers(trailers: &mut HeaderMap, head: &[HeaderName]) {
    clean(trailers);
    end_to_end(trailers);
    let never = [CONTENT_LENGTH, HOST, DESTINATION];
    remove(trailers, |name| name.starts_with("fencing-") || never.iter().chain(head).any(|it| it == name));
}

fn remove(headers: &mut HeaderMap, unwanted: impl Fn(&str) -> bool) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| unwanted(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

pub(super) fn overrides_method(uri: &Uri) -> bool {
    let keys = uri.query().unwrap_or_default().split(['&', ';']);
    let mut keys = keys.map(|pair| pair.split('=').next().unwrap_or_default());
    keys.any(|key| percent_decode_str(key).collect::<Vec<u8>>().eq_ignore_ascii_case(b"_method"))
}

pub(super) fn closes(headers: &HeaderMap) -> bool {
    connection(headers).any(|name| name.eq_ignore_ascii_case("close"))
}

fn connection(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter();
    values.flat_map(|value| listed(value.to_str().unwrap_or_default()))
}

fn listed(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').map(str::trim)
}

fn end_to_end(headers: &mut HeaderMap) {
    let unwanted = listed(OF_THE_CONNECTION).chain(connection(headers));
    let unwanted: Vec<String> = unwanted.map(str::to_ascii_lowercase).collect();
    remove(headers, |name| {
        // The length of the body belongs to the message, even if Connection names it.
        let is_kept = name == CONTENT_LENGTH || name == HOST;
        !is_kept && unwanted.iter().any(|other| other == name)
    });
}

pub(super) fn forwarded(mut parts: Parts, body: Body, upstream: &Uri, http2: bool) -> http::Result<Request<Body>> {
    let headers = &mut parts.headers;
    let takes_trailers =
        headers.get(TE).is_some_and(|te| te.as_bytes().to_ascii_lowercase().windows(8).any(|word| word == b"trailers"));
    end_to_end(headers);
    // This proxy has answered it.
    headers.remove(EXPECT);
    // The authority of an absolute URI goes before Host (RFC 9112, 3.2.2). HTTP/1.0 may have neither.
    let authority = |uri: &Uri| uri.authority().map(|host| HeaderValue::try_from(host.as_str())).transpose();
    let host = authority(&parts.uri)?.or(headers.remove(HOST)).or(authority(upstream)?);
    if let Some(host) = host.filter(|_| !http2) {
        headers.insert(HOST, host);
    }
    if http2 && takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    // Without a length in its headers, hyper would send a read without its body.
    let read = matches!(parts.method, Method::GET | Method::HEAD);
    if read && !http2 && !body.is_end_stream() && !headers.contains_key(CONTENT_LENGTH) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let from = parts.extensions.remove().map(|from: SocketAddr| from.ip().to_string());
    let chain = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let chain = chain.chain(from.as_deref()).collect::<Vec<_>>().join(", ");
    headers.insert(FORWARDED_FOR, HeaderValue::try_from(chain)?);
    via(headers, parts.version);
    let mut to = upstream.clone().into_parts();
    to.path_and_query = parts.uri.path_and_query().cloned().or(to.path_and_query);
    parts.uri = Uri::from_parts(to)?;
    parts.version = if http2 { Version::HTTP_2 } else { Version::HTTP_11 };
    parts.extensions.clear();
    let head: Vec<_> = parts.headers.keys().cloned().collect();
    let body = body.map_frame(move |mut frame| {
        frame.trailers_mut().into_iter().for_each(|found| trailers(found, &head));
        frame
    });
    Ok(Request::from_parts(parts, Body::new(body)))
}

pub(super) fn answered(headers: &mut HeaderMap, version: Version) {
    end_to_end(headers);
    via(headers, version);
}

fn via(headers: &mut HeaderMap, version: Version) {
    let text = match version {
        Version::HTTP_2 => "2 fencing",
        Version::HTTP_10 => "1.0 fencing",
        _ => "1.1 fencing",
    };
    headers.append(VIA, HeaderValue::from_static(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_of_the_connection_stay_there() {
        let mut all = headers(&[
            ("connection", "close, X-Own"),
            ("connection", "Content-Length"),
            ("x-own", "1"),
            ("keep-alive", "1"),
            ("te", "gzip"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "x"),
            ("content-length", "5"),
            ("x-other", "1"),
        ]);
        end_to_end(&mut all);
        assert_eq!(all, headers(&[("content-length", "5"), ("x-other", "1")]));
    }

    #[test]
    fn a_request_without_a_host_names_the_service() {
        let upstream = Uri::from_static("http://files:8080");
        let host = |uri: &str, host: Option<&str>| {
            let mut request = Request::builder().uri(uri);
            if let Some(host) = host {
                request = request.header(HOST, host);
            }
            let (parts, body) = request.body(Body::empty()).unwrap().into_parts();
            let sent = forwarded(parts, body, &upstream, false).unwrap();
            sent.headers().get(HOST).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(host("/a", None), "files:8080");
        assert_eq!(host("/a", Some("h")), "h");
        assert_eq!(host("http://other/a", Some("h")), "other");
    }

    #[test]
    fn methods_and_paths_are_not_overridden() {
        let mut all = headers(&[
            ("x-http-method-override", "PUT"),
            ("x-http-method", "PUT"),
            ("x_http_method_override", "PUT"),
            ("x-method-override", "PUT"),
            ("x.http.method.override", "PUT"),
            ("x-original-url", "/b"),
            ("x-rewrite-url", "/b"),
            ("fencing_token", "99"),
            ("fencing-token", "34"),
        ]);
        clean(&mut all);
        assert_eq!(all, headers(&[("fencing-token", "34")]));
        for (uri, overrides) in [
            ("/a?_method=PUT", true),
            ("/a?b=c&%5fMETHOD=put", true),
            ("/a?method=PUT&x=_method", false),
            ("/a", false),
        ] {
            assert_eq!(overrides_method(&Uri::from_static(uri)), overrides, "{uri}");
        }
    }
}
