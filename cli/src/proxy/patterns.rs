//! Patterns of paths, and the resources that they name: `/transfer/{from}/{to}=accounts/{from},accounts/{to}`.

use std::str::FromStr;

use fencing::Resource;

use super::names::NameError;

/// A pattern of a path, and what it names.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    text: String,
    segments: Vec<Segment>,
    end: End,
    names: Vec<Vec<Part>>,
}

#[derive(Debug, Clone)]
enum Segment {
    Plain(String),
    Captured(String),
    /// `{id:int}`: a number without leading zeros. What is another text for the same number does not match.
    Integer(String),
}

/// What may stand behind the segments.
#[derive(Debug, Clone)]
enum End {
    Nothing,
    /// `**`: any number of segments.
    Anything,
    /// `{*name}`: one segment at least.
    Captured(String),
}

#[derive(Debug, Clone)]
enum Part {
    Plain(String),
    /// The place of a capture.
    Captured(usize),
}

/// Returns the resources of a path, without the slash at its beginning: what the first pattern that matches says.
pub(super) fn by_patterns(patterns: &[Pattern], path: &str) -> Result<Vec<Resource>, NameError> {
    let segments: Vec<&str> = path.split('/').collect();
    let found = patterns.iter().find_map(|pattern| Some((pattern, pattern.captures(&segments)?)));
    let Some((pattern, captures)) = found else {
        return Err(NameError::new("no pattern of the proxy names a resource for this path"));
    };
    let mut resources = Vec::new();
    for name in &pattern.names {
        let name: String = name.iter().map(|part| part.fill(&captures)).collect();
        let resource = Resource::new(name).map_err(NameError::new)?;
        // From one to the same is one resource, with one token.
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    Ok(resources)
}

/// Returns a pattern that can never decide, behind the earlier one that matches all of its paths.
pub(super) fn hidden(patterns: &[Pattern]) -> Option<(&str, &str)> {
    patterns.iter().enumerate().find_map(|(at, later)| {
        let earlier = patterns.iter().take(at).find(|earlier| earlier.covers(later))?;
        Some((earlier.text.as_str(), later.text.as_str()))
    })
}

impl Pattern {
    /// Returns whether it matches all paths that the other one matches. A path has one segment at least.
    fn covers(&self, other: &Pattern) -> bool {
        let Some(more) = other.segments.len().checked_sub(self.segments.len()) else {
            return false;
        };
        let ends = match self.end {
            End::Nothing => more == 0 && matches!(other.end, End::Nothing),
            End::Anything => true,
            End::Captured(_) => {
                more > 0 || self.segments.is_empty() || matches!(other.end, End::Captured(_))
            }
        };
        ends && self.segments.iter().zip(&other.segments).all(|(own, other)| own.covers(other))
    }

    /// Returns what it captures of a path that it matches.
    fn captures(&self, path: &[&str]) -> Option<Vec<String>> {
        let (head, rest) = path.split_at_checked(self.segments.len())?;
        let mut captures = Vec::new();
        for (segment, found) in self.segments.iter().zip(head) {
            match segment {
                Segment::Plain(text) if text == found => {}
                Segment::Plain(_) => return None,
                Segment::Integer(_) if !integer(found) => return None,
                Segment::Captured(_) | Segment::Integer(_) => captures.push((*found).to_owned()),
            }
        }
        match self.end {
            End::Nothing if !rest.is_empty() => return None,
            End::Captured(_) if rest.is_empty() => return None,
            End::Captured(_) => captures.push(rest.join("/")),
            End::Nothing | End::Anything => {}
        }
        Some(captures)
    }

    /// The names of its captures, in their order.
    fn captured(&self) -> Vec<&str> {
        let in_segments = self.segments.iter().filter_map(|segment| match segment {
            Segment::Captured(name) | Segment::Integer(name) => Some(name.as_str()),
            Segment::Plain(_) => None,
        });
        let last = match &self.end {
            End::Captured(name) => Some(name.as_str()),
            End::Nothing | End::Anything => None,
        };
        in_segments.chain(last).collect()
    }
}

impl Segment {
    fn covers(&self, other: &Segment) -> bool {
        match (self, other) {
            (Segment::Captured(_), _) | (Segment::Integer(_), Segment::Integer(_)) => true,
            (Segment::Integer(_), Segment::Plain(text)) => integer(text),
            (Segment::Plain(own), Segment::Plain(text)) => own == text,
            _ => false,
        }
    }
}

/// Returns whether a text is a number in the one way that this proxy reads.
fn integer(text: &str) -> bool {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (text == "0" || !text.starts_with('0'))
}

impl Part {
    fn fill<'a>(&'a self, captures: &'a [String]) -> &'a str {
        match self {
            Part::Plain(text) => text,
            Part::Captured(at) => captures.get(*at).map_or("", String::as_str),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let (path, names) =
            text.split_once('=').ok_or("give PATTERN=NAME, as in /a/{id}/**=a/{id}")?;
        let path = path.strip_prefix('/').ok_or("a pattern begins with a slash")?;
        let mut pattern = Pattern {
            text: text.to_owned(),
            segments: Vec::new(),
            end: End::Nothing,
            names: Vec::new(),
        };
        for segment in path.split('/') {
            if !matches!(pattern.end, End::Nothing) {
                return Err("** and {*name} stand at the end of a pattern".into());
            }
            match segment {
                "" | "." | ".." => return Err(format!("a segment of a pattern is {segment:?}")),
                "**" => pattern.end = End::Anything,
                _ => match capture(segment)? {
                    Some(name) if name.starts_with('*') => {
                        pattern.end = End::Captured(word(name.get(1..).unwrap_or(""))?);
                    }
                    Some(name) => pattern.segments.push(match name.split_once(':') {
                        Some((name, "int")) => Segment::Integer(word(name)?),
                        Some((_, kind)) => return Err(format!("{segment}: {kind:?} is not int")),
                        None => Segment::Captured(word(name)?),
                    }),
                    None => pattern.segments.push(Segment::Plain(segment.to_owned())),
                },
            }
        }
        let captured = pattern.captured();
        if captured
            .iter()
            .enumerate()
            .any(|(at, name)| captured.iter().take(at).any(|it| it == name))
        {
            return Err("a name stands twice in the pattern".into());
        }
        let names: Result<Vec<_>, String> =
            names.split(',').map(|name| template(name, &captured)).collect();
        pattern.names = names?;
        Ok(pattern)
    }
}

/// Returns what stands between the braces of a segment, if it is a capture as a whole.
fn capture(segment: &str) -> Result<Option<&str>, String> {
    match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => Ok(Some(name)),
        None if segment.contains(['{', '}', '*']) => Err(format!(
            "{segment}: a capture is a whole segment, and * stands only in ** and {{*name}}"
        )),
        None if segment.contains(|found: char| found.is_control() || r"%\;?#".contains(found)) => {
            Err(format!(
                "{segment:?}: paths are compared when they are decoded and without a query; % \\ ; ? # and \
                 control characters match nothing"
            ))
        }
        None => Ok(None),
    }
}

fn word(name: &str) -> Result<String, String> {
    match !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        true => Ok(name.to_owned()),
        false => {
            Err(format!("{{{name}}}: a capture has a name of letters, digits and underscores"))
        }
    }
}

/// Reads what a resource is named. Two captures stand apart: `{a}{b}` would name two pairs alike.
fn template(text: &str, captured: &[&str]) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or(format!("{text}: a brace is open"))?;
        let at = captured.iter().position(|captured| *captured == name);
        let at = at.ok_or(format!("{text}: the pattern has no {{{name}}}"))?;
        if !parts.is_empty() && !before.contains('/') {
            return Err(format!("{text}: put a slash between two captures"));
        }
        parts.extend([Part::Plain(before.to_owned()), Part::Captured(at)]);
        rest = behind;
    }
    parts.push(Part::Plain(rest.to_owned()));
    let empty = parts.iter().all(|part| matches!(part, Part::Plain(text) if text.is_empty()));
    if empty || text.contains("}}") || rest.contains('}') {
        return Err(format!("{text:?} is no name"));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(patterns: &[&str], path: &str) -> Result<Vec<String>, String> {
        let patterns: Vec<Pattern> = patterns.iter().map(|text| text.parse().unwrap()).collect();
        let found = by_patterns(&patterns, path).map_err(|error| error.to_string())?;
        Ok(found.iter().map(|name| name.as_str().to_owned()).collect())
    }

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let patterns = [
            "/accounts/closed=archive",
            "/accounts/{id}/**=accounts/{id}",
            "/transfer/{from}/{to}=accounts/{from},accounts/{to}",
            "/{a}/{b}/x/{*rest}=all/{b}/{rest}",
        ];
        for (path, expected) in [
            ("accounts/closed", &["archive"][..]),
            ("accounts/closed/x", &["accounts/closed"]),
            ("accounts/7", &["accounts/7"]),
            ("accounts/7/owner/name", &["accounts/7"]),
            ("transfer/7/8", &["accounts/7", "accounts/8"]),
            ("transfer/8/7", &["accounts/8", "accounts/7"]),
            ("transfer/7/7", &["accounts/7"]),
            ("a/b/x/c/d", &["all/b/c/d"]),
        ] {
            assert_eq!(names(&patterns, path).unwrap(), expected, "{path}");
        }
        for path in ["accounts", "transfer/7", "transfer/7/8/9", "a/b/x", "Accounts/7"] {
            assert!(names(&patterns, path).unwrap_err().contains("no pattern"), "{path}");
        }
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
    fn a_pattern_that_could_never_decide_is_found() {
        let found = |texts: [&str; 2]| {
            let patterns = texts.map(|text| text.parse::<Pattern>().unwrap());
            hidden(&patterns).is_some()
        };
        for hides in [
            ["/a/{x}=a", "/a/{y}=b"],
            ["/{*path}={path}", "/a=b"],
            ["/{*path}={path}", "/**=b"],
            ["/**=all", "/{*path}={path}"],
            ["/a/**=a", "/a/b/{c}=c"],
            ["/a/{*r}=a", "/a/b/**=c"],
            ["/a/{x}=a", "/a/{y:int}=b"],
            ["/a/{x:int}=a", "/a/7=b"],
        ] {
            assert!(found(hides), "{hides:?}");
        }
        for apart in [
            ["/a/{y:int}=b", "/a/{x}=a"],
            ["/a/{x:int}=a", "/a/07=b"],
            ["/a/b=a", "/a/{x}=b"],
            ["/a/{*r}=a", "/a/**=b"],
            ["/a/{x}=a", "/a/{x}/**=b"],
            ["/a/{x}/**=a", "/a/**=b"],
            ["/a=a", "/{*path}={path}"],
        ] {
            assert!(!found(apart), "{apart:?}");
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
