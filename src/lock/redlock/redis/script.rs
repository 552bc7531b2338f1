use ::redis::{Cmd, Value};

use super::keys::Keys;
use super::several;
use super::words::{field, millis, signed};
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{
    ClientId, EPOCH, Fleet, Incarnation, Membership, Nonce, Prepared, Reply, Report, Request,
    Resource, Sealing, Stamp, State, Token,
};

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

/// The scripts of a lock's life, which a session loads when it opens.
const LOADED: [&str; 8] = [ACQUIRE, SHARE, PUBLISH, RENEW, RENEW_SHARE, RELEASE, SHORTEN, DRAIN];
const ACQUIRE: &str = numbered!("acquire.lua");
const SHARE: &str = numbered!("tell.lua", "share.lua");
const DRAIN: &str = numbered!("drain.lua");
const RENEW_SHARE: &str = numbered!("renew_share.lua");
const PUBLISH: &str = numbered!("publish.lua");
const RENEW: &str = numbered!("renew.lua");
const RELEASE: &str = numbered!("tell.lua", "release.lua");
const SHORTEN: &str = numbered!("shorten.lua");

/// The digests under which a server keeps the scripts that were loaded. None of them if it takes none:
/// then each request carries its script.
#[derive(Debug, Clone, Default)]
pub(super) struct Digests(Vec<String>);

impl Digests {
    /// Returns the commands that load the scripts.
    pub(super) fn load() -> ::redis::Pipeline {
        let mut load = ::redis::pipe();
        for source in LOADED {
            load.cmd("SCRIPT").arg("LOAD").arg(source);
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

    fn of_script(&self, source: &str) -> Option<&str> {
        let place = LOADED.iter().position(|loaded| *loaded == source)?;
        self.0.get(place).map(String::as_str)
    }
}

/// Returns the command that runs a request as one script, by its digest where it was loaded, for the session
/// with this marker, of a client whose locks are signed like that. The number comes back with the answer, see [`answer_to`].
pub(super) fn command(
    keys: &Keys,
    (marker, signature): (&str, &str),
    digests: &Digests,
    request: &Request,
    number: u64,
) -> Cmd {
    let script = |source: &'static str, resource: Option<&Resource>| {
        // Room for what a lock of a usual name needs.
        let mut cmd = Cmd::with_capacity(20, 640);
        match digests.of_script(source) {
            Some(digest) => cmd.arg("EVALSHA").arg(digest),
            None => cmd.arg("EVAL").arg(source),
        };
        cmd.arg(if resource.is_some() { 5 } else { 4 });
        cmd.arg(&keys.memory).arg(&keys.quarantine).arg(&keys.latest).arg(&keys.long);
        if let Some(resource) = resource {
            cmd.arg(keys.lock(resource));
        }
        cmd.arg(marker);
        cmd
    };
    let stamp = |token: &Token| Stamp::from(*token);
    let mut cmd;
    match request {
        Request::Acquire { resource, owner, ttl } => {
            cmd = script(ACQUIRE, Some(resource));
            cmd.arg(signed(owner, signature)).arg(millis(*ttl)).arg(field(resource));
        }
        Request::Share { resource, owner, ttl } => {
            cmd = script(SHARE, Some(resource));
            cmd.arg(signed(owner, signature)).arg(millis(*ttl)).arg(field(resource));
            cmd.arg(format!("{}{resource}", keys.waiting));
            cmd.arg(format!("{}{resource}", keys.told)).arg(&keys.channel).arg(resource.as_str());
        }
        Request::Drain { resource, lasting } => {
            cmd = script(DRAIN, Some(resource));
            cmd.arg(millis(*lasting));
        }
        Request::RenewShare { resource, owner, token, ttl } => {
            cmd = script(RENEW_SHARE, Some(resource));
            cmd.arg(signed(owner, signature)).arg(millis(*ttl)).arg(field(resource));
            cmd.arg(stamp(token).era).arg(stamp(token).count);
        }
        Request::Publish { resource, owner, nonce, token } => {
            cmd = script(PUBLISH, Some(resource));
            cmd.arg(signed(owner, signature)).arg(nonce.to_string()).arg(field(resource));
            cmd.arg(stamp(token).era).arg(stamp(token).count);
        }
        Request::Renew { resource, owner, token, ttl } => {
            cmd = script(RENEW, Some(resource));
            cmd.arg(signed(owner, signature)).arg(millis(*ttl)).arg(field(resource));
            cmd.arg(stamp(token).era).arg(stamp(token).count);
        }
        Request::Release { resource, owner } => {
            cmd = script(RELEASE, Some(resource));
            cmd.arg(signed(owner, signature)).arg(format!("{}{resource}", keys.waiting));
            cmd.arg(format!("{}{resource}", keys.told)).arg(&keys.channel).arg(resource.as_str());
        }
        Request::Shorten { resource, owner, rest } => {
            cmd = script(SHORTEN, Some(resource));
            cmd.arg(signed(owner, signature)).arg(millis(*rest));
        }
        Request::Several(parts) => cmd = several::command(keys, (marker, signature), parts),
        Request::Prepare { nonce, from } => {
            cmd = script(numbered!("session.lua", "prepare.lua"), None);
            cmd.arg(nonce.to_string()).arg(from.as_ref().map_or("", Fleet::as_str));
        }
        Request::Read => cmd = script(numbered!("read.lua"), None),
        Request::Inspect => cmd = script(numbered!("inspect.lua"), None),
        Request::Reserve { era, memory } => {
            cmd = script(numbered!("session.lua", "reserve.lua"), None);
            cmd.arg(*era).arg(memory.map_or_else(String::new, |nonce| nonce.to_string()));
        }
        Request::Activate { nonce, era, collect, quarantine, new, .. } => {
            cmd = script(numbered!("session.lua", "activate.lua"), None);
            cmd.arg(nonce.to_string()).arg(*era).arg(u8::from(*collect)).arg(millis(*quarantine));
            cmd.arg(u8::from(*new));
        }
        Request::Seal { to, step } => {
            cmd = script(numbered!("session.lua", "seal.lua"), None);
            let (step, era) = match step {
                Sealing::Leave => ("leave", 0),
                Sealing::Promise(era) => ("promise", *era),
                Sealing::Done(era) => ("done", *era),
            };
            cmd.arg(to.as_str()).arg(step).arg(era);
        }
        Request::Open { nonce } => {
            cmd = script(numbered!("open.lua"), None);
            cmd.arg(nonce.to_string());
        }
    }
    cmd.arg(number);
    cmd
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
        Some(State { nonce, era, reserved, longest })
    };
    Some(match text(0)? {
        "granted" => Reply::Granted {
            stamp: Stamp { era: natural(1)?, count: natural(2)? },
            nonce: nonce(3)?,
            crowded: number(4)? == 1,
        },
        "held" => Reply::Held { remaining: remaining(1)?, holder: holder(2) },
        "shared" => Reply::Shared { remaining: remaining(1)?, holder: holder(2) },
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
            Reply::Report(Report { state: state(1)?, quarantine, counts: natural(6)? })
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
