//! Patterns of paths, and the resources that they name: `/transfer/{from}/{to}=accounts/{from},accounts/{to}`.

use std::str::FromStr;

use fencing::Resource;
use matchit::{InsertError, Match, Params, Router};

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

/// The patterns of a proxy. Of two that match a path, the more specific one names its resources.
#[derive(Clone)]
pub(super) struct Patterns(Router<Pattern>);

impl Patterns {
    pub(super) fn new(patterns: &[Pattern]) -> Result<Patterns, String> {
        let mut router = Router::new();
        for pattern @ Pattern { text, routes, .. } in patterns {
            for route in routes {
                router.insert(route, pattern.clone()).map_err(|error| match error {
                    InsertError::Conflict { with } => format!("{text}: another pattern matches the same paths: {with}"),
                    error => format!("{text}: {error}"),
                })?;
            }
        }
        Ok(Patterns(router))
    }

    /// Returns the resources of a path, without the slash at its beginning.
    pub(super) fn resources(&self, path: &str) -> Result<Vec<Resource>, String> {
        let none = || "no pattern of the proxy names a resource for this path".to_owned();
        let path = format!("/{path}");
        let Match { value: pattern, params } = self.0.at(&path).map_err(|_| none())?;
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

    fn names(patterns: &[&str], path: &str) -> Result<Vec<String>, String> {
        let patterns: Vec<Pattern> = patterns.iter().map(|text| text.parse().unwrap()).collect();
        let found = Patterns::new(&patterns)?.resources(path).map_err(|error| error.to_string())?;
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
            Patterns::new(&patterns).is_err()
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

    /// A capture is a segment, whatever is in it: it is filled in as it is.
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
