use fencing::Resource;
use fencing::http::path;
use http::HeaderName;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::args::NameArgs;
use super::patterns::Patterns;
use crate::exit::Failure;

pub(super) fn extractor(
    args: &NameArgs,
) -> Result<impl Fn(&Parts) -> Result<Vec<Resource>, String> + Clone + use<>, Failure> {
    let header = args.resource_header.clone();
    let wrong = |why| Failure::usage(format_args!("--resource-from {why}"));
    let patterns = Some(&args.resource_from).filter(|patterns| !patterns.is_empty());
    let patterns = patterns.map(|patterns| Patterns::new(patterns).map_err(wrong)).transpose()?;
    Ok(move |parts: &Parts| match (&header, &patterns) {
        (Some(header), _) => by_header(parts, header).map(|name| vec![name]),
        (None, Some(patterns)) => patterns.resources(by_path(parts)?.as_str()),
        (None, None) => by_path(parts).map(|path| vec![path]),
    })
}

/// Returns the resource that the path names. The service behind may read a path in its own way. What
/// some services read as another path names nothing: encoded slashes, question marks and hashes (a service
/// that decodes before it splits ends the path there), backslashes, parameters behind a semicolon, what is encoded
/// twice, and a `%` that encodes nothing. Empty and dotted segments name nothing either.
fn by_path(parts: &Parts) -> Result<Resource, String> {
    let raw = parts.uri.path().as_bytes();
    if raw.windows(3).any(|three| three.eq_ignore_ascii_case(b"%2f")) {
        return Err("the path has an encoded slash; send the path without it".to_owned());
    }
    let hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let encodes = |three: &[u8]| hex(three.first()) && hex(three.get(1));
    if raw.split(|byte| *byte == b'%').skip(1).any(|after| !encodes(after)) {
        return Err("a % in the path must be followed by two hexadecimal digits".to_owned());
    }
    let decoded = percent_decode_str(parts.uri.path()).collect::<Vec<u8>>();
    if let Some(byte) = decoded.iter().find(|byte| matches!(byte, b'\\' | b';' | b'?' | b'#')) {
        let byte = char::from(*byte);
        return Err(format!("the path contains {byte}; send the path without it"));
    }
    if decoded.split(|byte| *byte == b'%').skip(1).any(encodes) {
        return Err("the path is encoded twice; send it encoded once".to_owned());
    }
    path(parts).map_err(|error| error.to_string())
}

fn by_header(parts: &Parts, header: &HeaderName) -> Result<Resource, String> {
    let mut values = parts.headers.get_all(header).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err("the gateway must send exactly one header that names the resource".to_owned());
    };
    let name = std::str::from_utf8(value.as_bytes()).map_err(|error| error.to_string())?;
    Resource::new(name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> Result<String, String> {
        let request = http::Request::builder().uri(path).body(()).unwrap();
        let named = by_path(&request.into_parts().0);
        named.map(|name| name.as_str().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_resource_has_one_name() {
        for path in ["/files/a", "/files/%61", "/%66iles/a?x=1", "http://h/files/a"] {
            assert_eq!(name(path).as_deref(), Ok("files/a"), "{path}");
        }
        assert_eq!(name("/100%25/a").as_deref(), Ok("100%/a"));
        for path in [
            "/",
            "/files//a",
            "//files/a",
            "/files/a/",
            "/files/./a",
            "/files/b/../a",
            "/files/%2e%2e/a",
            "/files/b/.%2E/a",
            "/files%2fa",
            "/files%2Fa",
            "/files%5ca",
            "/files%5Ca",
            "/files/a;x=1",
            "/files/a%3bx",
            "/files/a%3fx",
            "/files/a%3F",
            "/files/a%23x",
            "/files%3f/a",
            "/files/a%253Fx",
            "/files/a%2523x",
            "/files/a%25253Fx",
            "/files/a%252Fx",
            "/files/a%255Cx",
            "/files/a%2500",
            "/files/a%0a",
            "/files/a%c0%afx",
            "/files/%2561",
            "/files/%252e%252e/a",
            "/files/%u0061",
            "/files/a%",
            "/files/a%6",
            "/files/%6%31",
            "/files/a%00",
            "/files/%ff",
        ] {
            assert!(name(path).is_err(), "{path}: {:?}", name(path));
        }
    }
}
