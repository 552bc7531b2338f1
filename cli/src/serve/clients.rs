use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencing::Resource;
use hex::FromHex;
use http::HeaderMap;
use http::header::{AUTHORIZATION, ORIGIN};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answers::{FORBIDDEN, OVERLOADED, UNAUTHORIZED, UNAVAILABLE};
use crate::exit::Failure;
use crate::listen::Refused;
use crate::watched_files::WatchedFiles;

const FROM_A_PAGE: &str = "web pages get no leases: a request with Origin or Sec-Fetch-Site is refused";

/// The clients that may ask, and how much each of them uses.
pub(super) struct Clients {
    known: Option<WatchedFiles<Tokens>>,
    /// It stays when the file changes.
    usage: Mutex<HashMap<String, Arc<Usage>>>,
}

/// The SHA-256 of each token, and the client that has it.
type Tokens = Vec<([u8; 32], Arc<Rights>)>;

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

/// A client in the file, under its name.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rights {
    #[serde(skip)]
    name: String,
    /// Of its bearer tokens: more than one while they are changed.
    token_sha256: Vec<String>,
    /// Names; with a slash at the end all that begin with it. A slash alone is every name.
    resources: Vec<String>,
    may: Vec<Right>,
    leases: Option<usize>,
    waiters: Option<usize>,
    /// Of requests that are no renewals and no releases.
    requests_per_second: Option<u32>,
}

#[derive(Default)]
struct Usage {
    leases: Mutex<InUse>,
    waiters: Mutex<InUse>,
    /// When the next request would come if all came at the rate.
    next: Mutex<Option<Instant>>,
}

/// A lease or a waiter of a client, counted until it is dropped.
type InUse = Arc<()>;

/// A lease or a waiter, counted with those of its client and with those of all.
pub(super) type Slot = (InUse, OwnedSemaphorePermit);

impl Clients {
    /// Without a file everybody is one client, which may ask for everything.
    pub(super) fn open(file: Option<&Path>) -> Result<Clients, Failure> {
        let watch = |file: &Path| WatchedFiles::open(vec![file.to_owned()], |texts| parse(&texts.concat()));
        Ok(Clients { known: file.map(watch).transpose()?, usage: Mutex::default() })
    }

    pub(super) fn is_anybody(&self) -> bool {
        self.known.is_none()
    }

    /// Returns the client that has sent these headers, if it is no web page.
    pub(super) fn find(&self, headers: &HeaderMap) -> Result<Caller, Refused> {
        if is_from_a_page(headers) {
            return Err(FORBIDDEN.because(FROM_A_PAGE));
        }
        let rights = match &self.known {
            None => Arc::new(anybody()),
            Some(known) => {
                let nobody = || UNAUTHORIZED.because("say who you are: send Authorization: Bearer TOKEN");
                let hash = digest(&SHA256, bearer(headers).ok_or_else(nobody)?);
                let known = known.now();
                // All are compared: the time says nothing about any of them.
                let found = known.iter().filter(|(token, _)| token.ct_eq(hash.as_ref()).into());
                let found = found.fold(None, |_, (_, rights)| Some(Arc::clone(rights)));
                found.ok_or_else(|| UNAUTHORIZED.because("no client has this token"))?
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
        self.rights.may.contains(&right)
    }

    pub(super) fn require(&self, right: Right) -> Result<(), Refused> {
        self.check(self.may(right), &format!("{right:?}").to_lowercase())
    }

    pub(super) fn require_resource(&self, resource: &Resource) -> Result<(), Refused> {
        let mut prefixes = self.rights.resources.iter();
        self.check(prefixes.any(|prefix| covers(prefix, resource.as_str())), resource.as_str())
    }

    fn check(&self, has: bool, what: &str) -> Result<(), Refused> {
        if has { Ok(()) } else { Err(FORBIDDEN.because(format_args!("{} has no right to {what}", self.name()))) }
    }

    /// Takes one of the requests that the client has each second. It may send those of one second at once.
    pub(super) fn take_request(&self) -> Result<(), Refused> {
        let Some(rate) = self.rights.requests_per_second else { return Ok(()) };
        let (now, mut next) = (Instant::now(), self.usage.next.lock());
        let due = next.unwrap_or(now).max(now);
        if due.duration_since(now) >= Duration::from_secs(1) {
            return Err(OVERLOADED.because(format_args!("{} sends more than {rate} requests a second", self.name())));
        }
        *next = Some(due + Duration::from_secs(1) / rate.max(1));
        Ok(())
    }

    /// Counts a lease with those of this client, and with those of all, for which there are permits.
    pub(super) fn take_lease(&self, of_all: &Arc<Semaphore>) -> Result<Slot, Refused> {
        let full = |_| UNAVAILABLE.because("too many leases are held; no lock was requested");
        let permit = || Arc::clone(of_all).try_acquire_owned().map_err(full);
        self.count(&self.usage.leases, self.rights.leases, "leases", permit)
    }

    /// Counts a request that waits in the same way.
    pub(super) fn take_waiter(&self, of_all: &Arc<Semaphore>) -> Result<Slot, Refused> {
        let full = |_| OVERLOADED.because("too many requests wait; nothing was requested");
        let permit = || Arc::clone(of_all).try_acquire_owned().map_err(full);
        self.count(&self.usage.waiters, self.rights.waiters, "waiting requests", permit)
    }

    /// Takes the permit under the lock: a request that gets none is never counted with those of its client.
    fn count(
        &self,
        in_use: &Mutex<InUse>,
        most: Option<usize>,
        what: &str,
        permit: impl FnOnce() -> Result<OwnedSemaphorePermit, Refused>,
    ) -> Result<Slot, Refused> {
        let in_use = in_use.lock();
        // `in_use` itself is one reference.
        if let Some(most) = most.filter(|most| Arc::strong_count(&in_use) > *most) {
            return Err(OVERLOADED.because(format_args!("{} has {most} {what}, which is its limit", self.name())));
        }
        let permit = permit()?;
        Ok((Arc::clone(&in_use), permit))
    }
}

fn anybody() -> Rights {
    let may = vec![Right::Acquire, Right::Release, Right::Read];
    Rights { name: "anybody".to_owned(), resources: vec!["/".to_owned()], may, ..Rights::default() }
}

fn parse(text: &str) -> Result<Tokens, Box<dyn Error>> {
    let clients: HashMap<String, Rights> = toml::from_str(text)?;
    let mut tokens = Tokens::new();
    for (name, rights) in clients {
        if rights.token_sha256.is_empty() {
            return Err(format!("{name} has no token_sha256").into());
        }
        let rights = Arc::new(Rights { name, ..rights });
        let name = &rights.name;
        for digits in &rights.token_sha256 {
            let wrong = |_| format!("{name}: give the SHA-256 of a token in 64 hexadecimal digits");
            let hash = <[u8; 32]>::from_hex(digits).map_err(wrong)?;
            if let Some((_, other)) = tokens.iter().find(|(known, other)| *known == hash && other.name != *name) {
                return Err(format!("{name} and {} have one token", other.name).into());
            }
            tokens.push((hash, Arc::clone(&rights)));
        }
    }
    Ok(tokens)
}

fn covers(prefix: &str, name: &str) -> bool {
    prefix == "/" || prefix == name || prefix.ends_with('/') && name.starts_with(prefix)
}

/// Whether a browser sends this for a web page. This service has no pages, so each is foreign: one that is open in a
/// browser on the same machine reaches a loopback address, and its requests with simple bodies need no consent.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    site || headers.contains_key(ORIGIN)
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
            let error = parse(text).err().unwrap().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
