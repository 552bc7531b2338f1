use fencing_protocol::{Owner, Resource};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

#[derive(Debug, Clone)]
pub(super) struct Paths(String);

/// One lock that this session has, or may have.
#[derive(Debug, Clone)]
pub(super) struct LockNode {
    pub(super) folder: String,
    pub(super) path: String,
    pub(super) czxid: i64,
    /// The version of the folder, which a release by force changes.
    pub(super) version: i32,
}

/// The exclusive holder of a lock.
pub(super) const ALONE: &str = "x";
/// A waiting writer: no client joins the shared lock.
pub(super) const WAITS: &str = "w";
/// What the nodes of changes begin with.
pub(super) const CHANGES: &str = "c-";
/// What the parts of a shared lock begin with.
pub(super) const SHARED: &str = "s-";

impl Paths {
    pub(super) fn new(chroot: &str, namespace: &str) -> Paths {
        Paths(format!("{chroot}/{}", escaped(namespace)))
    }

    /// Returns the persistent nodes that all others need, parents first, and the base before the folders of locks.
    pub(super) fn persistent(&self) -> Vec<String> {
        let ends = self.0.match_indices('/').skip(1).map(|(end, _)| end);
        let above = ends.filter_map(|end| self.0.get(..end).map(str::to_owned));
        above.chain(["", "/base", "/l", "/q", "/s"].map(|name| format!("{}{name}", self.0))).collect()
    }

    /// What tokens count from.
    pub(super) fn base(&self) -> String {
        format!("{}/base", self.0)
    }

    /// No lock is granted while it is there.
    pub(super) fn closed(&self) -> String {
        self.child("closed")
    }

    /// A folder of the namespace: `l` for locks, `q` for lines, `s` for sessions.
    pub(super) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    pub(super) fn session(&self, owner: Owner) -> String {
        format!("{}/s/{owner}", self.0)
    }

    /// Returns the folder of the waiting clients.
    pub(super) fn line(&self, resource: &Resource) -> String {
        format!("{}/q/{}", self.0, escaped(resource.as_str()))
    }

    pub(super) fn lock(&self, resource: &Resource) -> String {
        format!("{}/l/{}", self.0, escaped(resource.as_str()))
    }
}

/// What is escaped in the name of a node.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b':')
    .remove(b'=')
    .remove(b'@')
    .remove(b'+')
    .remove(b',')
    .remove(b'.');

/// Returns the name of a node. Two texts never become one.
pub(super) fn escaped(text: &str) -> String {
    // "." and ".." are no names.
    let (dot, rest) = text.strip_prefix('.').map_or(("", text), |rest| ("%2E", rest));
    format!("{dot}{}", utf8_percent_encode(rest, ESCAPED))
}

/// Returns the text of a node's name, if it is one of [`escaped`].
pub(super) fn unescaped(name: &str) -> Option<String> {
    let text = percent_decode_str(name).decode_utf8().ok()?;
    (escaped(&text) == name).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_one_node() {
        let names = ["a/b", "a%2Fb", "a", "a.", ".a", ".", "..", "\u{155}", "r\u{301}", "a b"];
        let nodes: Vec<_> = names.iter().map(|name| escaped(name)).collect();
        let mut distinct = nodes.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len(), "{nodes:?}");
        for (name, node) in names.iter().zip(&nodes) {
            assert_eq!(unescaped(node).as_deref(), Some(*name));
        }
        assert_eq!(unescaped("a%2"), None);
        assert_eq!(nodes[..3], ["a%2Fb", "a%252Fb", "a"]);
        assert!(!nodes.iter().any(|node| node.contains('/') || node.starts_with('.')));
    }

    #[test]
    fn parents_come_first() {
        let folders = Paths::new("/app/x", "fencing").persistent();
        assert_eq!(folders[..3], ["/app", "/app/x", "/app/x/fencing"]);
        assert_eq!(Paths::new("", "n").persistent()[0], "/n");
    }
}
