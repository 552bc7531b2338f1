use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};
use fencing_protocol::{
    ClientId, EPOCH, Fleet, Incarnation, Membership, Mode, NodeState, Nonce, Owner, Prepared,
    Reply, Request, Resource, Sealing, Stamp, Token,
};

use super::keys::Keys;

/// A script whose answer begins with the number of the request, its last argument. The number comes
/// first because Redis cuts an array off at a nil.
macro_rules! numbered {
    ($($file:literal),+) => {
        concat!(
            include_str!("common.lua"),
            "local function answer()\n",
            $(include_str!($file),)+
            "end\nlocal parts = answer()\ntable.insert(parts, 1, ARGV[#ARGV])\nreturn parts\n"
        )
    };
}

/// A script that does to each of several locks what the files do to one. Inside, `KEYS` and `ARGV` are those of one.
macro_rules! each {
    ($($file:literal),+; $before:expr) => {
        concat!(
            "local function one(KEYS, ARGV)\n",
            include_str!("common.lua"),
            $(include_str!($file),)+
            "end\n",
            include_str!("several.lua"),
            $before,
            "return each()\n"
        )
    };
}

/// What is run for one lock.
struct LockScript {
    source: &'static str,
    /// For several locks in one step; empty where there is no such request.
    each: &'static str,
    /// The number of arguments of each lock.
    arguments: usize,
}

/// The scripts of a lock's life, which a session loads when it opens. Those for several locks go with each
/// request: they are seldom, and a session opens faster without them.
const LOADED: [&LockScript; 8] =
    [&ACQUIRE, &SHARE, &PUBLISH, &RENEW, &RENEW_SHARE, &RELEASE, &SHORTEN, &DRAIN];
const ACQUIRE: LockScript = LockScript {
    source: numbered!("acquire.lua"),
    each: each!("acquire.lua"; concat!(
        "local function holder_of(KEYS, ARGV)\n",
        include_str!("common.lua"),
        "return lock()\nend\n",
        include_str!("all_or_none.lua")
    )),
    arguments: 3,
};
const PUBLISH: LockScript =
    LockScript { source: numbered!("publish.lua"), each: each!("publish.lua"; ""), arguments: 5 };
const RENEW: LockScript =
    LockScript { source: numbered!("renew.lua"), each: each!("renew.lua"; ""), arguments: 5 };
const RELEASE: LockScript = LockScript {
    source: numbered!("notify.lua", "release.lua"),
    each: each!("notify.lua", "release.lua"; ""),
    arguments: 5,
};
const SHORTEN: LockScript =
    LockScript { source: numbered!("shorten.lua"), each: each!("shorten.lua"; ""), arguments: 2 };
const SHARE: LockScript =
    LockScript { source: numbered!("notify.lua", "share.lua"), each: "", arguments: 7 };
const RENEW_SHARE: LockScript =
    LockScript { source: numbered!("renew_share.lua"), each: "", arguments: 5 };
const DRAIN: LockScript = LockScript { source: numbered!("drain.lua"), each: "", arguments: 1 };

/// The digests under which a server keeps the scripts that were loaded. None of them if it takes none:
/// then each request carries its script.
#[derive(Debug, Clone, Default)]
pub(super) struct Digests(Vec<String>);

impl Digests {
    /// Returns the commands that load the scripts.
    pub(super) fn load() -> ::redis::Pipeline {
        let mut load = ::redis::pipe();
        for script in LOADED {
            load.cmd("SCRIPT").arg("LOAD").arg(script.source);
        }
        load
    }

    /// Takes the server's answers.
    pub(super) fn of(answers: Vec<String>) -> Digests {
        let is_digest =
            |text: &String| text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let whole = answers.len() == LOADED.len() && answers.iter().all(is_digest);
        Digests(if whole { answers } else { Vec::new() })
    }

    fn of_script(&self, script: &LockScript) -> Option<&str> {
        let place = LOADED.iter().position(|loaded| loaded.source == script.source)?;
        self.0.get(place).map(String::as_str)
    }
}

/// Returns the command that runs a request as one script, by its digest where it was loaded, for the session
/// with this marker, of a client whose locks are signed like that. The number comes back with the answer, see
/// [`answer_to`].
pub(super) fn command(
    keys: &Keys,
    (marker, signature): (&str, &str),
    digests: &Digests,
    request: &Request,
    number: u64,
) -> Cmd {
    // Room for what a lock of a usual name needs.
    let mut cmd = Cmd::with_capacity(20, 640);
    let parts = request.parts();
    match (of_lock(request), parts.first().and_then(of_lock)) {
        (Some((script, resource)), _) => {
            match digests.of_script(script) {
                Some(digest) => cmd.arg("EVALSHA").arg(digest),
                None => cmd.arg("EVAL").arg(script.source),
            };
            node_keys(&mut cmd, keys, 1).arg(keys.lock(resource)).arg(marker);
            arguments(&mut cmd, keys, signature, request);
        }
        (None, Some((script, _))) => {
            cmd.arg("EVAL").arg(script.each);
            node_keys(&mut cmd, keys, parts.len());
            for (_, resource) in parts.iter().filter_map(of_lock) {
                cmd.arg(keys.lock(resource));
            }
            cmd.arg(marker).arg(script.arguments);
            parts.iter().for_each(|part| arguments(&mut cmd, keys, signature, part));
        }
        (None, None) => of_node(&mut cmd, keys, marker, request),
    }
    cmd.arg(number);
    cmd
}

fn node_keys<'a>(cmd: &'a mut Cmd, keys: &Keys, locks: usize) -> &'a mut Cmd {
    cmd.arg(4 + locks).arg(&keys.memory).arg(&keys.quarantine).arg(&keys.latest).arg(&keys.long)
}

/// Returns the script of a request about one lock.
fn of_lock(request: &Request) -> Option<(&'static LockScript, &Resource)> {
    Some(match request {
        Request::Acquire { resource, mode: Mode::Exclusive, .. } => (&ACQUIRE, resource),
        Request::Acquire { resource, .. } => (&SHARE, resource),
        Request::Drain { resource, .. } => (&DRAIN, resource),
        Request::Publish { resource, .. } => (&PUBLISH, resource),
        Request::Renew { resource, mode: Mode::Exclusive, .. } => (&RENEW, resource),
        Request::Renew { resource, .. } => (&RENEW_SHARE, resource),
        Request::Release { resource, .. } => (&RELEASE, resource),
        Request::Shorten { resource, .. } => (&SHORTEN, resource),
        _ => return None,
    })
}

/// Adds the arguments of a request about one lock, behind the marker.
fn arguments(cmd: &mut Cmd, keys: &Keys, signature: &str, request: &Request) {
    let stamp = |cmd: &mut Cmd, token: &Token| {
        let Stamp { era, count } = Stamp::from(*token);
        cmd.arg(era).arg(count);
    };
    let waiters = |cmd: &mut Cmd, resource: &Resource| {
        cmd.arg(keys.waiting(resource)).arg(keys.notified(resource));
        cmd.arg(&keys.channel).arg(resource.as_str());
    };
    if let Some(owner) = request.owner() {
        cmd.arg(signed(&owner, signature));
    }
    match request {
        Request::Acquire { resource, mode, ttl, .. } => {
            cmd.arg(millis(*ttl)).arg(Keys::count(resource));
            if *mode == Mode::Shared {
                waiters(cmd, resource);
            }
        }
        Request::Renew { resource, token, ttl, .. } => {
            cmd.arg(millis(*ttl)).arg(Keys::count(resource));
            stamp(cmd, token);
        }
        Request::Publish { resource, nonce, token, .. } => {
            cmd.arg(nonce.to_string()).arg(Keys::count(resource));
            stamp(cmd, token);
        }
        Request::Release { resource, .. } => waiters(cmd, resource),
        Request::Shorten { rest: lasting, .. } | Request::Drain { lasting, .. } => {
            cmd.arg(millis(*lasting));
        }
        _ => {}
    }
}

/// Adds what a request about the whole node runs.
fn of_node(cmd: &mut Cmd, keys: &Keys, marker: &str, request: &Request) {
    let mut script = |source: &'static str| {
        cmd.arg("EVAL").arg(source);
        node_keys(cmd, keys, 0).arg(marker);
    };
    match request {
        Request::Prepare { nonce, from } => {
            script(numbered!("session.lua", "prepare.lua"));
            cmd.arg(nonce.to_string()).arg(from.as_ref().map_or("", Fleet::as_str));
        }
        Request::Read => script(numbered!("read.lua")),
        Request::Reserve { era, memory } => {
            script(numbered!("session.lua", "reserve.lua"));
            cmd.arg(*era).arg(memory.map_or_else(String::new, |nonce| nonce.to_string()));
        }
        Request::Activate { nonce, era, collect, quarantine, new, .. } => {
            script(numbered!("session.lua", "activate.lua"));
            cmd.arg(nonce.to_string()).arg(*era).arg(u8::from(*collect)).arg(millis(*quarantine));
            cmd.arg(u8::from(*new));
        }
        Request::Seal { to, step } => {
            script(numbered!("session.lua", "seal.lua"));
            let (step, era) = match step {
                Sealing::Leave => ("leave", 0),
                Sealing::Promise(era) => ("promise", *era),
                Sealing::Done(era) => ("done", *era),
            };
            cmd.arg(to.as_str()).arg(step).arg(era);
        }
        Request::Open { nonce } => {
            script(numbered!("open.lua"));
            cmd.arg(nonce.to_string());
        }
        // What is left is `Inspect`, which changes nothing.
        _ => script(numbered!("inspect.lua")),
    }
}

/// Returns whole milliseconds, rounded up, at least one unless zero: Redis refuses `PX 0`.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the value of a lock that an owner holds, or its member: the owner, and behind a space the name
/// of its client, for people. The scripts compare the whole of it.
fn signed(owner: &Owner, signature: &str) -> String {
    format!("{owner}{signature}")
}

/// Returns the value of `admitted` on a node that was admitted in this life, in this fleet.
pub(super) fn marker(me: &Membership) -> String {
    format!("{} {}", me.incarnation.as_str(), me.fleet)
}

/// Returns the rest of an answer after its number, if it answers the request of that number. In Redis only
/// the order says which answer belongs to which request: if one got lost, each later answer would count for
/// the request before its own, and a grant of one lock would count as a grant of another.
pub(super) fn answer_to(number: u64, value: &Value) -> Option<&[Value]> {
    let Value::Array(parts) = value else { return None };
    let (Value::BulkString(bytes), parts) = parts.split_first()? else { return None };
    let text = std::str::from_utf8(bytes).ok()?;
    (text.parse() == Ok(number)).then_some(parts)
}

/// Returns what the script answered, behind the number; `None` if none of our scripts answers that.
pub(super) fn reply(incarnation: &Incarnation, uptime: Duration, parts: &[Value]) -> Option<Reply> {
    let text = |part: usize| match parts.get(part)? {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text.as_str()),
        _ => None,
    };
    let number = |part: usize| match parts.get(part)? {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let natural = |part: usize| u64::try_from(number(part)?).ok();
    // A key without expiry was made by hand: it is never over by itself.
    let remaining = |part: usize| match number(part)? {
        -1 => Some(Duration::from_secs(24 * 60 * 60)),
        left => Some(Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1))),
    };
    // Anybody may have written anything there.
    let holder = |part: usize| text(part).filter(|text| text.len() <= 128).map(Arc::from);
    let nonce = |part: usize| Nonce::parse(text(part)?);
    let fleet = |part: usize| Fleet::parse(text(part)?);
    let state = |part: usize| {
        let longest = Duration::from_millis(natural(part + 3)?);
        let (nonce, era, reserved) = (nonce(part)?, natural(part + 1)?, natural(part + 2)?);
        Some(NodeState { nonce, era, reserved, longest })
    };
    Some(match text(0)? {
        "granted" => Reply::Granted {
            stamp: Stamp { era: natural(1)?, count: natural(2)? },
            nonce: nonce(3)?,
            crowded: number(4)? == 1,
        },
        mode @ ("held" | "shared") => {
            let (remaining, shared) = (remaining(1)?, mode == "shared");
            Reply::Held { remaining, shared, holder: holder(2) }
        }
        "draining" => Reply::Draining,
        "free" => Reply::Free,
        "several" => {
            // Only the answer as a whole has the request's number in front; its parts have none.
            let part = |part: &Value| match part {
                Value::Array(part) => reply(incarnation, uptime, part),
                _ => None,
            };
            Reply::Several(parts.get(1..)?.iter().map(part).collect::<Option<_>>()?)
        }
        "exhausted" => Reply::Exhausted,
        "quarantined" => Reply::Quarantined { remaining: remaining(1)? },
        "not-admitted" => Reply::NotAdmitted,
        "published" => Reply::Published,
        "renewed" => Reply::Renewed,
        "released" => match parts.get(1).and(text(1)) {
            // Anybody may have noted another name there. The lock is free in any case.
            Some(to) => ClientId::parse(to).map_or(Reply::Released, |to| Reply::Passed { to }),
            None => Reply::Released,
        },
        "not-owner" => Reply::NotOwner,
        "other-fleet" => Reply::OtherFleet(fleet(1)?),
        "moved" => Reply::Moved(fleet(1)?),
        "state" => Reply::State(state(1)?),
        "report" => {
            let quarantine = if number(5)? == -2 { None } else { Some(remaining(5)?) };
            Reply::Report { state: state(1)?, quarantine, counts: natural(6)? }
        }
        "reserved" => Reply::Reserved { nonce: nonce(1)? },
        "activated" => Reply::Activated,
        "sealed" => Reply::Sealed(state(1)?),
        "opened" => Reply::Opened,
        "forgotten" => Reply::Forgotten,
        "prepared" => Reply::Prepared(Prepared {
            incarnation: incarnation.clone(),
            state: state(1)?,
            admitted: number(5)? == 1,
            blank: number(6)? == 1,
            crowded: number(7)? == 1,
            clock: Duration::from_secs(natural(8)?)
                .saturating_sub(EPOCH)
                .saturating_add(Duration::from_micros(natural(9)?)),
            other: match text(10)? {
                "" => None,
                _ => Some(fleet(10)?),
            },
            uptime,
        }),
        _ => return None,
    })
}
