use super::super::BuildError;

/// Says which part of a URL is wrong. The parser's text may contain the password, and so may a wrong port or database
/// if the password holds a comma or a slash: none of these is repeated.
pub(super) fn refused(given: &str, url: &str) -> BuildError {
    let (words, wrong) = wrong_part(url);
    let shown = without_password(given);
    let start = shown.find("://").map_or(0, |at| at + 3);
    let cut = shown.get(start..).and_then(|rest| rest.rfind(wrong?)).map(|at| start + at);
    let shown = cut.and_then(|at| shown.get(..at)).unwrap_or(&shown);
    BuildError::new("redis", format!("{shown} {words}"))
}

/// Returns what is wrong, and the character before a part that must not be repeated.
fn wrong_part(url: &str) -> (&'static str, Option<char>) {
    let schemes = ["redis", "rediss", "unix", "valkey", "valkeys", "redis+unix", "valkey+unix"];
    let Some((scheme, rest)) = url.split_once("://").filter(|(it, _)| schemes.contains(it)) else {
        return ("is not a redis://, rediss:// or unix:// URL", None);
    };
    let parts = rest.split(['?', '#']).next().unwrap_or("");
    let (authority, path) = parts.split_once('/').unwrap_or((parts, ""));
    if scheme.ends_with("unix") {
        return ("cannot be read: check the path, and user, pass and db after it", None);
    }
    if !authority.contains('@') && rest.contains('@') {
        return ("has a character in its user or password that a URL must write as %XX", None);
    }
    let place = authority.rsplit('@').next().unwrap_or(authority);
    // The colons of an IPv6 address stand in brackets.
    let ports = place.rsplit(']').next().unwrap_or(place);
    let port = ports.rsplit_once(':').map_or("", |(_, port)| port);
    if !port.is_empty() && port.parse::<u16>().is_err() {
        return ("has a port that is not a number up to 65535", Some(':'));
    }
    if place.is_empty() || place.starts_with(':') {
        return ("names no host", None);
    }
    let database = path.trim_matches('/');
    if !database.is_empty() && database.parse::<i64>().is_err() {
        return ("has a database that is not a number", Some('/'));
    }
    ("cannot be read: check the host, the user, the password and what follows them", None)
}

/// The URL without user, password and parameters.
pub(super) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let parts = rest.split('?').next().unwrap_or("");
    match (parts.rsplit_once('@'), rest.contains('@')) {
        (Some((_, place)), _) => format!("{scheme}{place}"),
        // A question mark in a password, perhaps.
        (None, true) => format!("{scheme}***"),
        (None, false) => format!("{scheme}{parts}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::lock::redlock::RedisNode;

    #[test]
    fn the_wrong_part_of_a_url_is_named_and_never_the_password() {
        for (url, words) in [
            ("h:6379", "h:6379 is not a redis://, rediss:// or unix:// URL"),
            ("me:s3cret@h", "h is not a redis://"),
            ("http://me:s3cret@h/1", "http://h/1 is not a redis://"),
            ("redis://me:s3cret@h:port", "redis://h has a port that"),
            ("redis://h:65536/1", "redis://h has a port that"),
            ("a=redis://me:s3cret@[::1]:x", "a=redis://[::1] has a port that"),
            ("redis://me:s3cret@:6379", "redis://:6379 names no host"),
            ("redis://me:s3cret@h/x", "redis://h has a database that"),
            ("redis://me:s3/cret@h:1", "redis://h:1 has a character in its user or password"),
            ("redis://me:s3?s3cret@h:1", "redis://*** has a character in its user or password"),
            // A comma or a slash in the password.
            ("redis://me:s3", "redis://me has a port that"),
            ("redis://me:p@s/s3cret@h", "redis://h has a database that"),
            ("redis://me:s3cret@0.0.0.0", "redis://0.0.0.0 cannot be read"),
            ("unix:///s?pass=s3cret&db=x", "unix:///s cannot be read"),
        ] {
            let error = RedisNode::new(url, "fencing").unwrap_err().to_string();
            assert!(error.starts_with(&format!("redis: {words}")), "{url}: {error}");
            assert!(!error.contains("s3"), "{url}: {error}");
        }
    }
}
