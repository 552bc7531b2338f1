//! One script for several locks: the script for one of them, in a loop.

use std::time::Duration;

use fencing_protocol::{Request, Resource, Stamp};

use ::redis::Cmd;

use super::keys::Keys;
use super::words::{field, millis, signed};

/// A script that does to each lock what the file does to one. Inside, `KEYS` and `ARGV` are those of one.
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

const ACQUIRE: &str = each!("acquire.lua"; concat!(
    "local function holder_of(KEYS, ARGV)\n",
    include_str!("common.lua"),
    "return lock()\nend\n",
    include_str!("all_or_none.lua")
));
const PUBLISH: &str = each!("publish.lua"; "");
const RENEW: &str = each!("renew.lua"; "");
const RELEASE: &str = each!("tell.lua", "release.lua"; "");
const SHORTEN: &str = each!("shorten.lua"; "");

/// Returns the command that runs requests of one kind as one script, up to its number. The script goes with
/// each of them: they are seldom, and a session opens faster without them.
pub(super) fn command(keys: &Keys, (marker, signature): (&str, &str), parts: &[Request]) -> Cmd {
    let parts: Vec<_> = parts.iter().filter_map(|part| arguments(keys, signature, part)).collect();
    let source = parts.first().map_or(RELEASE, |(source, ..)| source);
    let width = parts.first().map_or(0, |(_, _, arguments)| arguments.len());
    let mut cmd = ::redis::cmd("EVAL");
    cmd.arg(source).arg(4 + parts.len());
    cmd.arg(&keys.memory).arg(&keys.quarantine).arg(&keys.latest).arg(&keys.long);
    for (_, resource, _) in &parts {
        cmd.arg(keys.lock(resource));
    }
    cmd.arg(marker).arg(width);
    for (_, _, arguments) in &parts {
        cmd.arg(arguments);
    }
    cmd
}

/// Returns the script of a request about one lock, and its arguments behind the marker.
fn arguments<'a>(
    keys: &Keys,
    signature: &str,
    part: &'a Request,
) -> Option<(&'static str, &'a Resource, Vec<String>)> {
    let stamp = |token| {
        let Stamp { era, count } = Stamp::from(token);
        [era.to_string(), count.to_string()]
    };
    let millis = |duration: Duration| millis(duration).to_string();
    let owner = signed(&part.owner()?, signature);
    Some(match part {
        Request::Acquire { resource, ttl, .. } => {
            (ACQUIRE, resource, vec![owner, millis(*ttl), field(resource)])
        }
        Request::Publish { resource, nonce, token, .. } => {
            let [era, count] = stamp(*token);
            (PUBLISH, resource, vec![owner, nonce.to_string(), field(resource), era, count])
        }
        Request::Renew { resource, token, ttl, .. } => {
            let [era, count] = stamp(*token);
            (RENEW, resource, vec![owner, millis(*ttl), field(resource), era, count])
        }
        Request::Release { resource, .. } => {
            let (waiting, told) =
                (format!("{}{resource}", keys.waiting), format!("{}{resource}", keys.told));
            let channel = keys.channel.clone();
            (RELEASE, resource, vec![owner, waiting, told, channel, resource.to_string()])
        }
        Request::Shorten { resource, rest, .. } => (SHORTEN, resource, vec![owner, millis(*rest)]),
        _ => return None,
    })
}
