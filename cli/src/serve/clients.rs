//! Who may ask `fencing serve` for what, as its file of clients says.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencing::Resource;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use crate::exit::Failure;
use crate::followed::Followed;

/// The clients that may ask, and how much each of them uses.
pub(super) struct Clients {
    known: Option<Followed<Vec<Arc<Rights>>>>,
    /// It stays when the file changes.
    usage: Mutex<HashMap<String, Arc<Usage>>>,
}

/// A client that has said who it is: the one that sends a request.
#[derive(Clone)]
pub(super) struct Caller {
    rights: Arc<Rights>,
    usage: Arc<Usage>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Right {
    /// Acquire leases, and renew, show and release those.
    Acquire,
    /// Release leases of others.
    Release,
    /// Show leases of others, and read the other pages.
    Read,
}

struct Rights {
    name: String,
    entry: ClientEntry,
}

/// A client in the file, under its name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientEntry {
    /// Of its bearer tokens: more than one while they are changed.
    token_sha256: Vec<TokenHash>,
    /// Names; with a slash at the end all that begin with it. A slash alone is every name.
    resources: Vec<String>,
    may: Vec<Right>,
    #[serde(default = "unlimited")]
    leases: usize,
    #[serde(default = "unlimited")]
    waiters: usize,
    /// Of requests that are no renewals and no releases.
    requests_per_second: Option<u32>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct TokenHash([u8; 32]);

#[derive(Default)]
struct Usage {
    leases: Mutex<InUse>,
    waiters: Mutex<InUse>,
    /// When the next request would come if all came at the rate.
    next: Mutex<Option<Instant>>,
}

/// Why a request is denied, without a word about others.
pub(super) enum Denied {
    /// No client has sent it.
    Unknown(&'static str),
    /// Its client has no right to that.
    Forbidden(String),
    /// Its client has reached a bound of its own.
    Busy(String),
    /// All clients together hold as many leases as they may.
    Full,
    NoLease,
}

/// A lease or a waiter of a client, counted until it is dropped.
pub(super) type InUse = Arc<()>;

impl Clients {
    /// Without a file everybody is one client, which may ask for everything.
    pub(super) fn open(file: Option<&Path>) -> Result<Clients, Failure> {
        let follow = |file: &Path| Followed::open(vec![file.to_owned()], |texts| parse(&texts.concat()));
        Ok(Clients { known: file.map(follow).transpose()?, usage: Mutex::default() })
    }

    /// Reports whether there is no file.
    pub(super) fn is_anybody(&self) -> bool {
        self.known.is_none()
    }

    /// Returns the client that has sent these headers.
    pub(super) fn find(&self, headers: &HeaderMap) -> Result<Caller, Denied> {
        let rights = match &self.known {
            None => Arc::new(Rights::anybody()),
            Some(known) => {
                let Some(token) = bearer(headers) else {
                    return Err(Denied::Unknown("say who you are: send Authorization: Bearer TOKEN"));
                };
                let hash = digest(&SHA256, token);
                let mut found = None;
                let known = known.now();
                // All are compared: the time says nothing about any of them.
                for rights in known.iter() {
                    for known in &rights.entry.token_sha256 {
                        if known.0.ct_eq(hash.as_ref()).into() {
                            found = Some(Arc::clone(rights));
                        }
                    }
                }
                found.ok_or(Denied::Unknown("no client has this token"))?
            }
        };
        let usage = Arc::clone(self.usage.lock().entry(rights.name.clone()).or_default());
        Ok(Caller { rights, usage })
    }
}

impl Caller {
    pub(super) fn name(&self) -> &str {
        &self.rights.name
    }

    pub(super) fn may(&self, right: Right) -> bool {
        self.rights.entry.may.contains(&right)
    }

    /// Refuses what the client has no right to.
    pub(super) fn require(&self, right: Right) -> Result<(), Denied> {
        let refusal = || {
            let right = format!("{right:?}").to_lowercase();
            Denied::Forbidden(format!("{} has no right to {right}", self.name()))
        };
        self.may(right).then_some(()).ok_or_else(refusal)
    }

    /// Refuses resources that are not the client's.
    pub(super) fn require_resource(&self, resource: &Resource) -> Result<(), Denied> {
        let mut prefixes = self.rights.entry.resources.iter();
        let refusal = || Denied::Forbidden(format!("{} has no right to {resource}", self.name()));
        prefixes.any(|prefix| covers(prefix, resource.as_str())).then_some(()).ok_or_else(refusal)
    }

    /// Takes one of the requests that the client has each second. It may send those of one second at once.
    pub(super) fn take_request(&self) -> Result<(), Denied> {
        let Some(rate) = self.rights.entry.requests_per_second else { return Ok(()) };
        let (now, mut next) = (Instant::now(), self.usage.next.lock());
        let due = next.unwrap_or(now).max(now);
        if due.duration_since(now) >= Duration::from_secs(1) {
            return Err(Denied::Busy(format!("{} sends more than {rate} requests a second", self.name())));
        }
        *next = Some(due + Duration::from_secs(1) / rate.max(1));
        Ok(())
    }

    /// Counts a lease.
    pub(super) fn count_lease(&self) -> Result<InUse, Denied> {
        self.count(&self.usage.leases, self.rights.entry.leases, "leases")
    }

    /// Counts a request that waits.
    pub(super) fn count_waiter(&self) -> Result<InUse, Denied> {
        self.count(&self.usage.waiters, self.rights.entry.waiters, "waiting requests")
    }

    fn count(&self, counted: &Mutex<InUse>, most: usize, what: &str) -> Result<InUse, Denied> {
        let counted = counted.lock();
        // It is one itself.
        match Arc::strong_count(&counted) <= most {
            true => Ok(Arc::clone(&counted)),
            false => Err(Denied::Busy(format!("{} has {most} {what}, which is its limit", self.name()))),
        }
    }
}

impl Rights {
    fn anybody() -> Rights {
        let may = vec![Right::Acquire, Right::Release, Right::Read];
        let (leases, waiters) = (unlimited(), unlimited());
        let (token_sha256, resources) = (Vec::new(), vec!["/".to_owned()]);
        let entry = ClientEntry { token_sha256, resources, may, leases, waiters, requests_per_second: None };
        Rights { name: "anybody".to_owned(), entry }
    }
}

impl TryFrom<String> for TokenHash {
    type Error = String;

    fn try_from(text: String) -> Result<TokenHash, String> {
        let hash = hex::decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
        hash.map(TokenHash).ok_or_else(|| "give the SHA-256 of a token in 64 hexadecimal digits".to_owned())
    }
}

fn unlimited() -> usize {
    usize::MAX
}

fn parse(text: &str) -> Result<Vec<Arc<Rights>>, String> {
    let entries: HashMap<String, ClientEntry> = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut owners = HashMap::new();
    for (name, entry) in &entries {
        if entry.token_sha256.is_empty() {
            return Err(format!("{name} has no token_sha256"));
        }
        for hash in &entry.token_sha256 {
            if let Some(other) = owners.insert(hash.0, name).filter(|other| *other != name) {
                return Err(format!("{name} and {other} have one token"));
            }
        }
    }
    Ok(entries.into_iter().map(|(name, entry)| Arc::new(Rights { name, entry })).collect())
}

fn covers(prefix: &str, name: &str) -> bool {
    prefix == "/" || prefix == name || prefix.ends_with('/') && name.starts_with(prefix)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_with_a_slash() {
        for (prefix, name) in [("/", "a"), ("a", "a"), ("a/", "a/b"), ("a/b/", "a/b/c/d")] {
            assert!(covers(prefix, name), "{prefix} {name}");
        }
        for (prefix, name) in [("a", "a/b"), ("a/", "a"), ("a/", "ab/c"), ("", "a"), ("a", "ab")] {
            assert!(!covers(prefix, name), "{prefix} {name}");
        }
    }

    #[test]
    fn a_file_of_clients_says_what_is_wrong() {
        let hash = "0a".repeat(32);
        let client = |name: &str, more: &str| {
            format!("[{name}]\ntoken_sha256 = [\"{hash}\"]\nresources = [\"a/\"]\nmay = [\"acquire\"]\n{more}\n")
        };
        assert_eq!(parse(&client("a", "leases = 3")).unwrap().len(), 1);
        let twice = client("a", "") + &client("b", "");
        for (text, why) in [
            (twice.as_str(), "have one token"),
            (&client("a", "lease = 3"), "unknown field `lease`"),
            (&client("a", "").replace("acquire", "write"), "unknown variant `write`"),
            (&client("a", "").replace("0a0a", "0a"), "64 hexadecimal digits"),
            (&client("a", "").replace(&format!("\"{hash}\""), ""), "a has no token_sha256"),
        ] {
            let error = parse(text).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
    }
}
