//! The keys of a lock service. No name of a resource has a zero byte: it ends the name.

use fencing_protocol::{Mode, Owner, Resource};

/// A range of keys, from one up to another.
pub(super) type Span = (Vec<u8>, Vec<u8>);

/// The keys of a namespace, which has no slash: no namespace lies within another.
#[derive(Debug, Clone)]
pub(super) struct EtcdKeys(String);

impl EtcdKeys {
    pub(super) fn new(namespace: &str) -> Result<EtcdKeys, String> {
        if namespace.is_empty() || !namespace.bytes().all(|byte: u8| byte.is_ascii_graphic() && byte != b'/') {
            let problem = "is not 1 or more printable ASCII characters without spaces and slashes";
            return Err(format!("{namespace:?} {problem}"));
        }
        Ok(EtcdKeys(namespace.to_owned()))
    }

    /// What is added to the revision of a grant to make its token. It has no lease.
    pub(super) fn base(&self) -> Vec<u8> {
        self.key("base", "")
    }

    /// Exists after the tokens were raised, until locks are granted again.
    pub(super) fn closed(&self) -> Vec<u8> {
        self.key("closed", "")
    }

    /// The longest time of an etcd lease, in seconds.
    pub(super) fn longest(&self) -> Vec<u8> {
        self.key("ttl", "")
    }

    /// The sentinel of a session: it is there for as long as the session's etcd lease.
    pub(super) fn sentinel(&self, lease: i64) -> Vec<u8> {
        self.key("s/", &format!("{lease:016x}"))
    }

    /// The lock: of its one owner, or the part of one that shares it.
    pub(super) fn lock(&self, resource: &Resource, mode: Mode, owner: Owner) -> Vec<u8> {
        if let Mode::Exclusive = mode { self.alone(resource) } else { self.key("l/", &format!("{resource}\0r{owner}")) }
    }

    pub(super) fn alone(&self, resource: &Resource) -> Vec<u8> {
        self.key("l/", &format!("{resource}\0w"))
    }

    pub(super) fn holders(&self, resource: &Resource) -> Span {
        within(self.key("l/", &format!("{resource}\0")))
    }

    pub(super) fn parts(&self, resource: &Resource) -> Span {
        within(self.key("l/", &format!("{resource}\0r")))
    }

    /// Returns the group of a shared lock: its last change is the token of the holders.
    pub(super) fn group(&self, resource: &Resource) -> Vec<u8> {
        self.key("g/", resource.as_str())
    }

    /// Exists while a waiting writer keeps new readers out of the group.
    pub(super) fn drain(&self, resource: &Resource) -> Vec<u8> {
        self.key("d/", resource.as_str())
    }

    pub(super) fn place(&self, resource: &Resource, number: u128) -> Vec<u8> {
        self.key("q/", &format!("{resource}\0{number:032x}"))
    }

    pub(super) fn places(&self, resource: &Resource) -> Span {
        within(self.key("q/", &format!("{resource}\0")))
    }

    /// All keys of this kind: `l/`, `g/`, `d/`, `q/`, `s/`.
    pub(super) fn every(&self, kind: &str) -> Span {
        within(self.key(kind, ""))
    }

    /// Returns the resource of the key of a lock, and whether it is shared.
    pub(super) fn resource(&self, key: &[u8]) -> Option<(Resource, bool)> {
        let key = std::str::from_utf8(key).ok()?;
        let (name, holder) = key.strip_prefix(&format!("{}/l/", self.0))?.rsplit_once('\0')?;
        Some((Resource::new(name).ok()?, holder.starts_with('r')))
    }

    fn key(&self, kind: &str, name: &str) -> Vec<u8> {
        [self.0.as_bytes(), b"/", kind.as_bytes(), name.as_bytes()].concat()
    }
}

/// Returns the span of all keys that begin with this, whose last byte is not 255.
fn within(prefix: Vec<u8>) -> Span {
    let mut end = prefix.clone();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (prefix, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lock_covers_another() {
        let keys = EtcdKeys::new("a").unwrap();
        let named = |name: &str| Resource::new(name).unwrap();
        let (start, end) = keys.holders(&named("docs"));
        for other in ["docs/a", "docs.", "doc", "docs "] {
            let Ok(other) = Resource::new(other) else { continue };
            let key = keys.alone(&other);
            assert!(!(start <= key && key < end), "{other}");
        }
        for mode in [Mode::Exclusive, Mode::Shared] {
            let key = keys.lock(&named("docs"), mode, Owner(7));
            assert!(start <= key && key < end);
            assert_eq!(keys.resource(&key), Some((named("docs"), mode == Mode::Shared)));
        }
        for namespace in ["", "a/l", "a b", "ä"] {
            assert!(EtcdKeys::new(namespace).is_err(), "{namespace}");
        }
    }
}
