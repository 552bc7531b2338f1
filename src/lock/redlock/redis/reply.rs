use std::sync::Arc;
use std::time::Duration;

use ::redis::Value;
use fencing_protocol::{ClientId, EPOCH, Fault, Fleet, NodeState, Nonce, Prepared, Reply, Request, Stamp};

use smallvec::smallvec;

use super::fault::{fault, invalid};
use crate::lock::redlock::answers::NodeAnswer;
use crate::lock::redlock::node::{Group, GroupKind};

/// An answer behind its number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answered<'a> {
    List(&'a [Value]),
    /// To a single request, in the usual case.
    Text(&'a str),
}

/// Returns the rest of an answer after its number, if it answers the request of that number. In Redis only
/// the order says which answer belongs to which request: if one got lost, each later answer would count for
/// the request before its own, and a grant of one lock would count as a grant of another.
pub(super) fn answer_to(number: u64, value: &Value) -> Option<Answered<'_>> {
    let (first, rest) = match value {
        Value::Array(parts) => {
            let (first, parts) = parts.split_first()?;
            (natural(first)?, Answered::List(parts))
        }
        value => {
            let (first, text) = text(value)?.split_once(' ')?;
            (first.parse().ok()?, Answered::Text(text))
        }
    };
    (first == number).then_some(rest)
}

/// Returns the answers to the requests of a group, in their order; `None` if no script of ours answers that.
pub(super) fn group(requests: &[Request], answered: Answered<'_>) -> Option<Group<NodeAnswer>> {
    let (era, nonce, parts) = match (answered, requests) {
        (Answered::List([era, nonce, parts @ ..]), _) => (era, nonce, parts),
        (Answered::Text(text), [request]) => return Some(smallvec![Ok(alone(request, text)?)]),
        _ => return None,
    };
    // The script answers one kind after another.
    let of_kind = |kind| requests.iter().filter(|it| GroupKind::of(it) == Some(kind)).count();
    let releases = of_kind(GroupKind::Release);
    let mut next = [0, releases, releases + of_kind(GroupKind::Acquire)];
    let answer = |request| {
        let kind = GroupKind::of(request)?;
        let next = next.get_mut(kind as usize)?;
        let part = parts.get(*next)?;
        *next += 1;
        Some(match part {
            Value::Int(count) => Ok(match kind {
                GroupKind::Release => Reply::Released,
                GroupKind::Renew => Reply::Renewed,
                GroupKind::Acquire => Reply::Granted {
                    stamp: Stamp { era: natural(era)?, count: count.unsigned_abs() },
                    nonce: Nonce::parse(text(nonce)?)?,
                    crowded: *count < 0,
                },
            }),
            Value::Array(own) => match own.as_slice() {
                [failed, why] if text(failed)? == "failed" => Err(failure(text(why)?)),
                own => {
                    let reply = reply(Duration::ZERO, own);
                    reply.ok_or_else(|| invalid(&format!("{own:?}")))
                }
            },
            _ => return None,
        })
    };
    requests.iter().map(answer).collect()
}

/// Returns the answer to a single request.
fn alone(request: &Request, text: &str) -> Option<Reply> {
    let mut words = text.split(' ');
    match (GroupKind::of(request)?, words.next()?) {
        (GroupKind::Release, "released") => Some(Reply::Released),
        (GroupKind::Acquire, "granted") => {
            let (era, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let nonce = Nonce::parse(words.next()?)?;
            Some(Reply::Granted { stamp: Stamp { era, count }, nonce, crowded: false })
        }
        _ => None,
    }
}

/// Returns the fault of one lock of a group.
fn failure(why: &str) -> Fault {
    let line = format!("-{}\r\n", why.lines().next().unwrap_or_default());
    match ::redis::parse_redis_value(line.as_bytes()).and_then(Value::extract_error) {
        Err(error) => fault(error),
        Ok(_) => invalid(why),
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn natural(value: &Value) -> Option<u64> {
    let Value::Int(number) = value else { return None };
    u64::try_from(*number).ok()
}

/// Returns what the script answered, behind the number; `None` if none of our scripts answers that.
pub(super) fn reply(uptime: Duration, parts: &[Value]) -> Option<Reply> {
    let text = |part: usize| text(parts.get(part)?);
    let number = |part: usize| if let Value::Int(number) = parts.get(part)? { Some(*number) } else { None };
    let natural = |part: usize| natural(parts.get(part)?);
    // A key without expiry was made by hand: it never ends.
    let remaining = |part: usize| match number(part)? {
        -1 => Some(Duration::from_secs(24 * 60 * 60)),
        left => Some(Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1))),
    };
    // Other clients may have written anything there.
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
            let part = |part: &Value| if let Value::Array(part) = part { reply(uptime, part) } else { None };
            Reply::Several(parts.get(1..)?.iter().map(part).collect::<Option<_>>()?)
        }
        "exhausted" => Reply::Exhausted,
        "quarantined" => Reply::Quarantined { remaining: remaining(1)? },
        "not-admitted" => Reply::NotAdmitted,
        "published" => Reply::Published,
        "renewed" => Reply::Renewed,
        // Other clients may have noted another name there. The lock is free in any case.
        "released" => {
            let notified = text(1).and_then(ClientId::parse);
            notified.map_or(Reply::Released, |client| Reply::ReleasedAndNotified { client })
        }
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
        "opened" => Reply::Opened,
        "forgotten" => Reply::Forgotten,
        "prepared" => Reply::Prepared(Prepared {
            state: state(1)?,
            admitted: number(5)? == 1,
            blank: number(6)? == 1,
            crowded: number(7)? == 1,
            clock: Duration::from_secs(natural(8)?)
                .saturating_sub(EPOCH)
                .saturating_add(Duration::from_micros(natural(9)?)),
            other: if text(10)?.is_empty() { None } else { Some(fleet(10)?) },
            uptime,
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use fencing_protocol::{Mode, Owner, Resource};

    use super::*;

    /// A text answers the one request of that number, and nothing but what it says.
    #[test]
    fn a_text_answers_one_request() {
        let (resource, owner) = (Resource::new("invoice/42").unwrap(), Owner(1));
        let release = Request::Release { resource: resource.clone(), owner };
        let (mode, ttl) = (Mode::Exclusive, Duration::from_secs(1));
        let acquire = Request::Acquire { resource, owner, mode, ttl };
        let nonce = Nonce(7);
        let granted = format!("34 granted 8 9 {nonce}");
        let grant = Reply::Granted { stamp: Stamp { era: 8, count: 9 }, nonce, crowded: false };
        let read = |text: &str, requests: &[Request]| {
            let value = Value::BulkString(text.into());
            group(requests, answer_to(34, &value)?)
        };
        let of_acquire = |text: &str| read(text, std::slice::from_ref(&acquire));
        let of_release = |text: &str| read(text, std::slice::from_ref(&release));
        assert_eq!(of_acquire(&granted), Some(smallvec![Ok(grant)]));
        assert_eq!(of_release("34 released"), Some(smallvec![Ok(Reply::Released)]));
        for odd in ["35 released", "34 granted 8", "34 granted 8 9 x", "34", "released", &granted] {
            assert_eq!(of_release(odd), None, "{odd:?}");
        }
        for odd in ["34 released", "34 granted 8 9", "34 granted -8 9 7", "35 granted 8 9 7", ""] {
            assert_eq!(of_acquire(odd), None, "{odd:?}");
        }
        assert_eq!(read("34 released", &[release, acquire]), None);
    }
}
