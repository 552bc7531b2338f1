/// Returns one URL for each server of a list, as [`connect`](fn@crate::lock::connect) reads it.
///
/// A server without a scheme shares the text before the first host and behind the last: `redis://user@a,b/1` is
/// `redis://user@a/1` and `redis://user@b/1`.
#[must_use]
pub fn node_urls(list: &str) -> Vec<String> {
    let parts = || list.split(',').map(str::trim).filter(|part| !part.is_empty());
    let first = parts().next().unwrap_or_default();
    let Some(scheme_end) = first.find("://").map(|at| at + 3) else {
        return parts().map(str::to_owned).collect();
    };
    let start = first.rfind('@').map_or(scheme_end, |at| at + 1);
    let last = parts().next_back().unwrap_or_default();
    let shared = !last.contains("://");
    let tail = match last.find(['/', '?']) {
        Some(at) if shared => last.get(at..).unwrap_or_default(),
        _ => "",
    };
    parts()
        .map(|part| match part.contains("://") {
            true if shared => format!("{part}{tail}"),
            true => part.to_owned(),
            false => {
                let host = part.strip_suffix(tail).unwrap_or(part);
                format!("{}{host}{tail}", first.get(..start).unwrap_or_default())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_url_becomes_one_for_each_server() {
        assert_eq!(node_urls("redis://a"), ["redis://a"]);
        assert_eq!(node_urls("redis://a,b:1,c"), ["redis://a", "redis://b:1", "redis://c"]);
        assert_eq!(node_urls("rediss://u:p@a, b/1"), ["rediss://u:p@a/1", "rediss://u:p@b/1"]);
        assert_eq!(node_urls("redis://a/1,redis://b/2"), ["redis://a/1", "redis://b/2"]);
        assert_eq!(node_urls("a=redis://x,b=redis://y"), ["a=redis://x", "b=redis://y"]);
        assert_eq!(node_urls("redis://[::1]:1,[::1]:2"), ["redis://[::1]:1", "redis://[::1]:2"]);
        assert_eq!(node_urls("unix:///a,unix:///b"), ["unix:///a", "unix:///b"]);
    }
}
