use std::fmt::Write;

use fencing_protocol::{Owner, Resource};

/// The nodes of a namespace.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    root: String,
}

/// The one who holds a lock alone.
pub(super) const ALONE: &str = "x";
/// A client that waits to hold a lock alone: nobody joins those who share it.
pub(super) const WAITS: &str = "w";
/// What the parts of a shared lock begin with.
pub(super) const SHARED: &str = "s-";

impl Paths {
    pub(super) fn new(chroot: &str, namespace: &str) -> Paths {
        Paths { root: format!("{chroot}/{}", escaped(namespace)) }
    }

    /// Returns the persistent nodes above all others, parents first.
    pub(super) fn folders(&self) -> Vec<String> {
        let ends = self.root.match_indices('/').skip(1).map(|(end, _)| end);
        let above = ends.filter_map(|end| self.root.get(..end).map(str::to_owned));
        above.chain(["", "/l", "/q", "/s"].map(|name| format!("{}{name}", self.root))).collect()
    }

    /// What tokens count from.
    pub(super) fn base(&self) -> String {
        format!("{}/base", self.root)
    }

    /// The node of a session.
    pub(super) fn session(&self, owner: Owner) -> String {
        format!("{}/s/{owner}", self.root)
    }

    /// The folder of a lock.
    pub(super) fn lock(&self, resource: &Resource) -> String {
        format!("{}/l/{}", self.root, escaped(resource.as_str()))
    }
}

/// Returns the name of a node. Two texts never become one.
pub(super) fn escaped(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-_:=@+,".contains(&byte);
        // "." and ".." are no names.
        if plain || (byte == b'.' && at > 0) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
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
        assert_eq!(nodes[..3], ["a%2Fb", "a%252Fb", "a"]);
        assert!(!nodes.iter().any(|node| node.contains('/') || node.starts_with('.')));
    }

    #[test]
    fn parents_come_first() {
        let folders = Paths::new("/app/x", "fencing").folders();
        assert_eq!(folders[..3], ["/app", "/app/x", "/app/x/fencing"]);
        assert_eq!(Paths::new("", "n").folders()[0], "/n");
    }
}
