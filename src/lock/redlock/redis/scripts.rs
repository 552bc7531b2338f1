use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::{Cmd, RedisError, RedisWrite, from_redis_value};
use fencing_protocol::{Fleet, Membership, Request, Sealing, Stamp, Token};

use super::keys::{RedisKeys, constant};
use super::source::{GROUP, LOADED, Script};
use super::wire::Wire;
use crate::lock::redlock::node::{GroupKind, renewed_for};

/// The scripts of a session, with what all of its commands have in common.
#[derive(Debug)]
pub(super) struct Scripts {
    keys: RedisKeys,
    /// The name of this client, stored after the owner in its locks.
    holder: String,
    head: String,
    /// The digests of the loaded scripts. Empty if the server loads none: then each request carries its script.
    digests: Vec<String>,
    /// Whether the server has lost the scripts. Until the session ends, requests carry them.
    flushed: AtomicBool,
}

impl Scripts {
    pub(super) fn new(keys: RedisKeys, holder: String, me: &Membership) -> Scripts {
        let head = head(&keys, me);
        Scripts { keys, holder, head, digests: Vec::new(), flushed: AtomicBool::new(false) }
    }

    /// Loads them, unless the user may not do that. Fails if the connection is broken.
    pub(super) async fn load(&mut self, wire: &Wire) -> Result<(), RedisError> {
        let send = |source| wire.send(|cmd| cmd.arg("SCRIPT").arg("LOAD").arg(self.text(source)));
        let loading: Vec<_> = LOADED.into_iter().map(send).collect();
        let mut digests = Vec::new();
        for answer in loading {
            digests.extend(from_redis_value::<String>(answer.await?));
        }
        let is_digest = |text: &String| text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if digests.len() == LOADED.len() && digests.iter().all(is_digest) {
            self.digests = digests;
        }
        Ok(())
    }

    /// Notes that the server has lost them.
    pub(super) fn flushed(&self) {
        self.flushed.store(true, Ordering::Relaxed);
    }

    /// Writes the command that runs requests as one script, by its digest where it was loaded: one request, or
    /// several that have a [`GroupKind`]. The number comes back with the answer.
    pub(super) fn write<'a>(&self, cmd: &'a mut Cmd, requests: &[Request], number: u64) -> &'a mut Cmd {
        let parts = requests.first().map_or(&[][..], Request::parts);
        match (requests.first().and_then(GroupKind::of), parts) {
            (Some(_), _) => self.group(cmd, requests),
            (None, [first, more @ ..]) => {
                let script = Script::of(first);
                self.script(cmd, if more.is_empty() { script.source } else { script.each });
                self.locks(cmd, parts.iter());
                parts.iter().for_each(|part| self.arguments(cmd, part));
            }
            (None, []) => {}
        }
        cmd.arg(number)
    }

    fn script<'a>(&self, cmd: &'a mut Cmd, source: &str) -> &'a mut Cmd {
        let flushed = self.flushed.load(Ordering::Relaxed);
        // The scripts are statics: their addresses tell them apart, without a comparison of their texts.
        let place = LOADED.iter().position(|loaded| std::ptr::eq(*loaded, source));
        match place.and_then(|place| self.digests.get(place)).filter(|_| !flushed) {
            Some(digest) => cmd.arg("EVALSHA").arg(digest),
            None => cmd.arg("EVAL").arg(self.text(source)),
        }
    }

    fn text(&self, source: &str) -> String {
        [&self.head, source].concat()
    }

    /// Adds the script of a group, its locks and their arguments, in the order of the script.
    fn group(&self, cmd: &mut Cmd, requests: &[Request]) {
        self.script(cmd, GROUP);
        let of_kind = |kind| requests.iter().filter(move |it| GroupKind::of(it) == Some(kind));
        let kinds = [GroupKind::Release, GroupKind::Acquire, GroupKind::Renew];
        let sorted = || kinds.into_iter().flat_map(of_kind);
        self.locks(cmd, sorted());
        for kind in [GroupKind::Release, GroupKind::Acquire] {
            cmd.arg(of_kind(kind).count());
        }
        cmd.arg(requests.iter().find_map(renewed_for).map_or(0, millis));
        // A renewal has few of its own: each costs the server as much as a sixth of a command.
        sorted().for_each(|request| match request {
            Request::Renew { token, .. } => {
                let Stamp { era, count } = Stamp::from(*token);
                self.owner(cmd, request);
                cmd.write_arg_fmt(format_args!("{era} {count}"));
            }
            _ => self.arguments(cmd, request),
        });
    }

    /// Adds the keys of the locks that requests are about, and before them their number.
    fn locks<'a>(&self, cmd: &mut Cmd, requests: impl Iterator<Item = &'a Request> + Clone) {
        let locks = requests.filter_map(Request::lock);
        cmd.arg(locks.clone().count());
        locks.for_each(|(resource, _)| self.keys.write_lock(cmd, resource));
    }

    fn owner(&self, cmd: &mut Cmd, request: &Request) {
        if let Some(owner) = request.owner() {
            // The scripts compare the whole of it.
            cmd.write_arg_fmt(format_args!("{owner} {}", self.holder));
        }
    }

    /// Adds the arguments of a request about one lock, or about the whole node.
    fn arguments(&self, cmd: &mut Cmd, request: &Request) {
        let stamp = |cmd: &mut Cmd, token: &Token| {
            let Stamp { era, count } = Stamp::from(*token);
            cmd.arg(era).arg(count);
        };
        self.owner(cmd, request);
        match request {
            Request::Acquire { ttl, .. } => {
                cmd.arg(millis(*ttl));
            }
            Request::Renew { token, ttl, .. } => {
                cmd.arg(millis(*ttl));
                stamp(cmd, token);
            }
            Request::Resume { least, ttl, .. } => {
                cmd.arg(millis(*ttl)).arg(millis(*least));
            }
            Request::Retire { token, .. } => stamp(cmd, token),
            Request::Publish { nonce, token, .. } => {
                cmd.arg(nonce.to_string());
                stamp(cmd, token);
            }
            Request::Shorten { rest: lasting, .. } | Request::Drain { lasting, .. } => {
                cmd.arg(millis(*lasting));
            }
            Request::Prepare { nonce, from } => {
                cmd.arg(nonce.to_string()).arg(from.as_ref().map_or("", Fleet::as_str));
            }
            Request::Reserve { era, memory } => {
                cmd.arg(*era).arg(memory.map_or_else(String::new, |nonce| nonce.to_string()));
            }
            Request::Activate { nonce, era, collect, quarantine, new } => {
                cmd.arg(nonce.to_string()).arg(*era);
                cmd.arg(u8::from(*collect)).arg(millis(*quarantine)).arg(u8::from(*new));
            }
            Request::Seal { to, step } => {
                let (step, era) = match step {
                    Sealing::Leave => ("leave", 0),
                    Sealing::Promise(era) => ("promise", *era),
                    Sealing::Done(era) => ("done", *era),
                };
                cmd.arg(to.as_str()).arg(step).arg(era);
            }
            Request::Open { nonce } => {
                cmd.arg(nonce.to_string());
            }
            Request::Release { .. } | Request::Read | Request::Inspect | Request::Several(_) => {}
        }
    }
}

/// Returns the head of each script in a session of this member.
pub(super) fn head(keys: &RedisKeys, me: &Membership) -> String {
    let (life, fleet) = (me.incarnation.as_str(), me.fleet.as_str());
    let constants = [("MARKER", &*marker(me)), ("RUN_ID", life), ("FLEET", fleet)];
    constants.iter().fold(keys.constants(), |head, (name, text)| head + &constant(name, text))
}

/// Returns the value of `admitted` on a node that was admitted in this run of its server, in this fleet.
pub(super) fn marker(me: &Membership) -> String {
    format!("{} {}", me.incarnation.as_str(), me.fleet)
}

/// Returns whole milliseconds, rounded up, at least one unless zero: Redis refuses `PX 0`.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
