//! Names the resources of a request: by a header, by its path, or by patterns of paths, as in
//! `/transfer/{from}/{to}=accounts/{from},accounts/{to}`.

use std::str::FromStr;

use fencing::Resource;
use fencing::http::path;
use http::HeaderName;
use http::request::Parts;
use matchit::{InsertError, Match, Params, Router};
use percent_encoding::percent_decode_str;

use crate::exit::Failure;

#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    text: String,
    /// The routes of its paths. With `**` there are two: that may be nothing, or segments.
    routes: Vec<String>,
    /// The captures that are numbers without leading zeros: another text for the same number does not match.
    integers: Vec<String>,
    /// The names of resources, with captures of the pattern in braces.
    names: Vec<String>,
}

pub(super) fn extractor(
    header: Option<HeaderName>,
    patterns: &[Pattern],
) -> Result<impl Fn(&Parts) -> Result<Vec<Resource>, String> + Clone + use<>, Failure> {
    let wrong = |why| Failure::usage(format_args!("--resource-from {why}"));
    let patterns = if patterns.is_empty() { None } else { Some(routes(patterns).map_err(wrong)?) };
    Ok(move |parts: &Parts| match (&header, &patterns) {
        (Some(header), _) => by_header(parts, header).map(|name| vec![name]),
        (None, Some(patterns)) => by_pattern(patterns, by_path(parts)?.as_str()),
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

/// Returns the patterns of a proxy by their paths. Of two that match a path, the more specific one names its resources.
fn routes(patterns: &[Pattern]) -> Result<Router<Pattern>, String> {
    let mut router = Router::new();
    for pattern @ Pattern { text, routes, .. } in patterns {
        for route in routes {
            router.insert(route, pattern.clone()).map_err(|error| match error {
                InsertError::Conflict { with } => format!("{text}: another pattern matches the same paths: {with}"),
                error => format!("{text}: {error}"),
            })?;
        }
    }
    Ok(router)
}

/// Returns the resources of a path, without the slash at its beginning.
fn by_pattern(patterns: &Router<Pattern>, path: &str) -> Result<Vec<Resource>, String> {
    let none = || "no pattern of the proxy names a resource for this path".to_owned();
    let path = format!("/{path}");
    let Match { value: pattern, params } = patterns.at(&path).map_err(|_| none())?;
    if !pattern.integers.iter().all(|name| params.get(name).is_some_and(is_integer)) {
        return Err(none());
    }
    let mut resources = Vec::new();
    for name in &pattern.names {
        let resource = Resource::new(filled(name, &params)).map_err(|error| error.to_string())?;
        // From one to the same is one resource, with one token.
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    Ok(resources)
}

/// Returns whether a text is a number in the one way that this proxy reads.
fn is_integer(text: &str) -> bool {
    text == "0" || !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let (path, names) = text.split_once('=').ok_or("give PATTERN=NAME, as in /a/{id}/**=a/{id}")?;
        let path = path.strip_prefix('/').ok_or("a pattern must begin with a slash")?;
        let (mut route, mut routes) = (String::new(), Vec::new());
        let (mut captures, mut integers) = (Vec::new(), Vec::new());
        for segment in path.split('/') {
            if route.contains("{*") {
                return Err("** and {*name} are allowed only at the end of a pattern".into());
            }
            let braced = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let Some(capture) = braced else {
                if segment == "**" {
                    routes.extend(Some(route.clone()).filter(|route| !route.is_empty()));
                    route.push_str("/{*-}");
                } else if is_plain(segment) {
                    route = format!("{route}/{segment}");
                } else {
                    return Err(format!("{segment:?}: {NOT_PLAIN}"));
                }
                continue;
            };
            let (star, name) = capture.strip_prefix('*').map_or(("", capture), |name| ("*", name));
            let integer = name.strip_suffix(":int").filter(|_| star.is_empty());
            let name = integer.unwrap_or(name).to_owned();
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(fits) || captures.contains(&name) {
                return Err(format!("{segment}: {NO_CAPTURE}"));
            }
            route = format!("{route}/{{{star}{name}}}");
            integers.extend(integer.map(str::to_owned));
            captures.push(name);
        }
        routes.push(route);
        names.split(',').try_for_each(|name| check_name(name, &captures))?;
        let names = names.split(',').map(str::to_owned).collect();
        Ok(Pattern { text: text.to_owned(), routes, integers, names })
    }
}

fn is_plain(segment: &str) -> bool {
    let odd = |found: char| found.is_control() || r"{}*%\;?#".contains(found);
    !matches!(segment, "" | "." | "..") && !segment.contains(odd)
}

const NOT_PLAIN: &str = "a segment must be a capture, or non-empty text except . and .., without { } * % \\ ; ? # \
                         and control characters: paths are compared decoded and without the query";

const NO_CAPTURE: &str = "a capture is {name}, {name:int} or at the end {*name}; the name has letters, digits and \
                          underscores, and is in the pattern once";

/// Checks the name of a resource. A slash separates captures: `{a}{b}` would name two pairs alike.
fn check_name(text: &str, captures: &[String]) -> Result<(), String> {
    let (mut is_first, mut rest) = (true, text);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or(format!("{text}: a brace is not closed"))?;
        if !captures.iter().any(|capture| capture == name) {
            return Err(format!("{text}: the pattern has no {{{name}}}"));
        }
        if !std::mem::take(&mut is_first) && !before.contains('/') {
            return Err(format!("{text}: put a slash between two captures"));
        }
        rest = behind;
    }
    let is_name = !text.is_empty() && !text.contains("}}") && !rest.contains('}');
    is_name.then_some(()).ok_or_else(|| format!("{text:?} is not a name with captures like {{id}}"))
}

fn filled(name: &str, params: &Params<'_, '_>) -> String {
    let mut parts = name.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    let parts = parts.filter_map(|part| part.split_once('}'));
    parts.fold(first, |name, (capture, behind)| name + params.get(capture).unwrap_or_default() + behind)
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

    fn names(patterns: &[&str], path: &str) -> Result<Vec<String>, String> {
        let patterns: Vec<Pattern> = patterns.iter().map(|text| text.parse().unwrap()).collect();
        let found = by_pattern(&routes(&patterns)?, path)?;
        Ok(found.iter().map(|name| name.as_str().to_owned()).collect())
    }

    #[test]
    fn the_most_specific_pattern_that_matches_decides() {
        let patterns = [
            "/accounts/{id}/**=accounts/{id}",
            "/accounts/closed=archive",
            "/{*path}=other",
            "/transfer/{from}/{to}=accounts/{from},accounts/{to}",
        ];
        for (path, expected) in [
            ("accounts/closed", &["archive"][..]),
            ("accounts/closed/x", &["accounts/closed"]),
            ("accounts/7", &["accounts/7"]),
            ("accounts/7/owner/name", &["accounts/7"]),
            ("transfer/7/8", &["accounts/7", "accounts/8"]),
            ("transfer/8/7", &["accounts/8", "accounts/7"]),
            ("transfer/7/7", &["accounts/7"]),
        ] {
            assert_eq!(names(&patterns, path).unwrap(), expected, "{path}");
        }
        for path in ["accounts", "transfer/7", "transfer/7/8/9", "a/b/x", "Accounts/7"] {
            assert_eq!(names(&patterns, path).unwrap(), ["other"], "{path}");
            assert!(names(&patterns[..2], path).unwrap_err().contains("no pattern"), "{path}");
        }
    }

    #[test]
    fn the_rest_of_a_path_is_captured() {
        let pattern = ["/{a}/{b}/x/{*rest}=all/{b}/{rest}"];
        assert_eq!(names(&pattern, "a/b/x/c/d").unwrap(), ["all/b/c/d"]);
        assert!(names(&pattern, "a/b/x").is_err());
    }

    #[test]
    fn a_number_is_captured_in_one_spelling() {
        let pattern = ["/accounts/{id:int}/**=accounts/{id}"];
        for path in ["accounts/7", "accounts/0/x", "accounts/70"] {
            assert!(names(&pattern, path).is_ok(), "{path}");
        }
        for last in ["07", "+7", "-7", "7.json", "7 ", "", "00", "seven", "\u{667}"] {
            assert!(names(&pattern, &format!("accounts/{last}")).is_err(), "{last}");
        }
    }

    #[test]
    fn patterns_for_the_same_paths_are_refused() {
        let is_refused = |texts: [&str; 2]| {
            let patterns = texts.map(|text| text.parse::<Pattern>().unwrap());
            routes(&patterns).is_err()
        };
        for same in [
            ["/a/{x}=a", "/a/{y}=b"],
            ["/**=all", "/{*path}={path}"],
            ["/a/{x}=a", "/a/{y:int}=b"],
            ["/a/{x}=a", "/a/{x}/**=b"],
            ["/a/{x}/**=a", "/a/{y}=b"],
            ["/{*path}={path}", "/{a}/b=b"],
        ] {
            assert!(is_refused(same), "{same:?}");
        }
        for apart in
            [["/a/b=a", "/a/{x}=b"], ["/a/{x:int}=a", "/a/7=b"], ["/{*path}={path}", "/a=b"], ["/a/**=a", "/a/b/{c}=c"]]
        {
            assert!(!is_refused(apart), "{apart:?}");
        }
    }

    /// The client chose what is in a segment: it is not read as a pattern.
    #[test]
    fn what_is_captured_is_not_read_again() {
        let pattern = ["/p/{a}/{b}=p/{a}/{b},q/{b}"];
        assert_eq!(names(&pattern, "p/{b}/x,y=z").unwrap(), ["p/{b}/x,y=z", "q/x,y=z"]);
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        for text in [
            "/a",
            "a=b",
            "=b",
            "/=b",
            "//a=b",
            "/a/=b",
            "/a/../b=c",
            "/**/a=b",
            "/{*r}/a=b",
            "/a{b}=b",
            "/{}=b",
            "/{a-b}=c",
            "/{*}=c",
            "/a*=b",
            "/{a}/{a}=b",
            "/{a}=",
            "/{a}={b}",
            "/{a}={a",
            "/{a}=a}",
            "/{a}={a},",
            "/{a}/{b}={a}{b}",
            "/{a}/{b}={a}-{b}",
            "/{a}={{a}}",
            "/a%20b=c",
            r"/a\b=c",
            "/a;b=c",
            "/a?b=c",
            "/a#b=c",
            "/a\tb=c",
            "/{a:hex}={a}",
            "/{a:}={a}",
            "/{:int}=a",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}
