use std::iter::once;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Owner, Resource, Token};

use super::fault::EtcdFailure;
use super::keys::EtcdKeys;
use super::messages::{Compare, EtcdAnswer, Is, KeyValue, Op, Range, Txn, TxnAnswer};
use crate::holder::Holder;
use crate::lock::engine::FoundHolder;
use crate::lock::lease::ticket::LeaseTicket;
use crate::lock::settings::Settings;
use crate::random;

/// The most operations of one transaction, by default.
pub(super) const MAX_OPS: usize = 128;
/// The most locks of one acquisition: another operation reads the base.
pub(super) const MAX_LOCKS: usize = MAX_OPS - 1;
/// The most locks of one sweep: each is a transaction in a transaction in the sweep.
pub(super) const MAX_SWEPT: usize = 123;

/// The locks that one attempt asks for, under an owner that no other attempt has.
#[derive(Debug)]
pub(super) struct EtcdClaim {
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    /// The contents of each lock: the owner, its name, and for how many milliseconds it is closed at most. A dot behind
    /// the name: it was released, and stays closed.
    pub(super) value: Vec<u8>,
    pub(super) locks: NonEmpty<(Resource, Vec<u8>)>,
    /// Whether the locks may be on another etcd lease than that of the session.
    anywhere: bool,
}

#[derive(Debug)]
pub(super) enum EtcdRefusal {
    Held(FoundHolder),
    /// The sentinel has changed. Nothing was asked of the locks.
    Moved,
    Over,
    Failed(EtcdFailure),
}

/// What was asked for may have been granted.
impl From<Fault> for EtcdRefusal {
    fn from(fault: Fault) -> EtcdRefusal {
        EtcdRefusal::Failed(EtcdFailure::lost(fault))
    }
}

impl From<EtcdRefusal> for Fault {
    fn from(refusal: EtcdRefusal) -> Fault {
        match refusal {
            EtcdRefusal::Failed(failure) => failure.fault,
            _ => Fault::Disconnected("its session has ended".into()),
        }
    }
}

impl EtcdClaim {
    pub(super) fn new(keys: &EtcdKeys, resources: &NonEmpty<Resource>, mode: Mode, settings: &Settings) -> EtcdClaim {
        let (owner, signature) = settings.new_owner();
        let lock = |resource: &Resource| (resource.clone(), keys.lock(resource, mode, owner));
        let value = format!("{signature} {}", settings.terms().closed_for().as_millis());
        EtcdClaim { owner, mode, value: value.into(), locks: resources.as_ref().map(lock), anywhere: false }
    }

    /// Returns the claim of a lease that another process had: the ticket has the contents of the lock.
    pub(super) fn of(keys: &EtcdKeys, ticket: &LeaseTicket) -> Option<EtcdClaim> {
        let LeaseTicket { sequencer, owner: value, .. } = ticket;
        let (owner, mode) = (Owner::parse(value.get(..32)?)?, Mode::Exclusive);
        let locks = NonEmpty::new((sequencer.resource.clone(), keys.alone(&sequencer.resource)));
        Some(EtcdClaim { owner, mode, value: value.clone().into(), locks, anywhere: false })
    }

    /// Returns the claim that keeps these locks closed for the `rest` after their release. Its owner is a new one, so
    /// that the ticket of the lease does not match.
    pub(super) fn kept(&self, rest: Duration) -> EtcdClaim {
        let value = String::from_utf8_lossy(&self.value);
        let signature = value.rsplit_once(' ').map_or(&*value, |(signature, _)| signature);
        let value = format!("{signature}. {}", rest.as_millis()).into();
        let owner = Owner(random::timestamped());
        EtcdClaim { owner, mode: self.mode, value, locks: self.locks.clone(), anywhere: true }
    }

    /// Returns a claim of one key that is there while a client waits.
    pub(super) fn waiting(resource: &Resource, key: Vec<u8>) -> EtcdClaim {
        let owner = Owner(random::timestamped());
        let locks = NonEmpty::new((resource.clone(), key));
        EtcdClaim { owner, mode: Mode::Exclusive, value: owner.to_string().into(), locks, anywhere: false }
    }

    pub(super) fn acquire(&self, keys: &EtcdKeys, lease: i64) -> Txn {
        let (mut compare, mut failure) = (Vec::new(), Vec::new());
        let mut success = vec![Op::range(Range::one(keys.base()))];
        for (resource, key) in &self.locks {
            let put = Op::put(key.clone(), self.value.clone(), lease);
            let drain = keys.drain(resource);
            let holders = Range { limit: 1, ..Range::all(keys.holders(resource)) };
            failure.push(Op::range(holders));
            if self.mode == Mode::Exclusive {
                compare.push(Compare::none_in(keys.holders(resource)));
                success.push(put);
                // Ends the drain, so that others join after this lease. With too many locks the drains lapse instead.
                success.extend((self.locks.len() < MAX_OPS / 2).then(|| Op::delete(drain)));
                continue;
            }
            let group = keys.group(resource);
            compare.push(Compare::absent(keys.alone(resource)));
            compare.push(Compare::absent(drain.clone()));
            let joins = Txn {
                compare: vec![Compare::created(group.clone(), Is::Greater, 0), Compare::some_in(keys.parts(resource))],
                success: vec![put.clone()],
                failure: vec![Op::put(group.clone(), Vec::new(), lease), put],
            };
            success.extend([Op::txn(joins), Op::range(Range::one(group))]);
            failure.push(Op::range(Range::one(drain)));
        }
        Txn { compare, success, failure }
    }

    /// Reads the guarded answer to [`acquire`](EtcdClaim::acquire): the base and the revision of the token.
    pub(super) fn outcome(&self, answer: &TxnAnswer) -> Result<(u64, i64), EtcdRefusal> {
        if answer.succeeded {
            let missing = |what: &str| Fault::InvalidReply(format!("the {what} is missing"));
            let first = |number| answer.read(number).first();
            let base = first(0).ok_or_else(|| missing("base of its tokens"))?;
            let counted = match self.mode {
                Mode::Exclusive => answer.header().revision,
                Mode::Shared => first(2).ok_or_else(|| missing("group"))?.modified,
            };
            return Ok((number(&base.value)?, counted));
        }
        let found = self
            .locks
            .iter()
            .zip(1..)
            .find_map(|((resource, _), number)| answer.read(number).first().map(|lock| holder_of(resource, lock)));
        let (resource, _) = self.locks.first();
        // A client waits to hold it alone.
        let closing =
            || FoundHolder { resource: resource.clone(), holder: None, shared: true, left: Duration::from_secs(1) };
        Err(EtcdRefusal::Held(found.unwrap_or_else(closing)))
    }

    /// Releases all locks, if each is still this one's.
    pub(super) fn release(&self, keys: &EtcdKeys) -> Txn {
        let success = self.locks.iter().flat_map(|lock| self.deletes(keys, lock)).collect();
        Txn { compare: self.still(), success, failure: Vec::new() }
    }

    /// Replaces the locks by those that are `kept` on another etcd lease, if each is still this one's.
    pub(super) fn keep_closed(&self, kept: &EtcdClaim, lease: i64) -> Txn {
        let put = |(_, key): &(_, Vec<u8>)| Op::put(key.clone(), kept.value.clone(), lease);
        let success = self.locks.iter().map(put).collect();
        Txn { compare: self.still(), success, failure: Vec::new() }
    }

    /// Puts its one lock on the etcd lease of another session, if no other process has done so since it was `read`.
    pub(super) fn move_to(&self, lease: i64, read: &KeyValue) -> Txn {
        let (_, key) = self.locks.first();
        let compare = vec![Compare::modified(key.clone(), read.modified), self.is_at(key)];
        Txn { compare, success: vec![Op::put(key.clone(), self.value.clone(), lease)], failure: Vec::new() }
    }

    /// Returns whether a lock is this one's, as it was read. Revisions alone repeat in a restored cluster.
    pub(super) fn is_in(&self, read: &[KeyValue]) -> bool {
        read.first().is_some_and(|lock| lock.value == self.value)
    }

    pub(super) fn concerns(&self, resource: &Resource) -> bool {
        self.locks.iter().any(|(it, _)| it == resource)
    }

    fn still(&self) -> Vec<Compare> {
        self.locks.iter().map(|(_, key)| self.is_at(key)).collect()
    }

    fn is_at(&self, key: &[u8]) -> Compare {
        Compare::value(key.to_vec(), Is::Equal, self.value.clone())
    }

    /// Returns what releases each lock if it is this one's on the session's etcd lease: another process may move it to
    /// its own.
    pub(super) fn sweeps<'a>(&'a self, keys: &'a EtcdKeys, lease: i64) -> impl Iterator<Item = Op> + 'a {
        self.locks.iter().map(move |lock| {
            let on = (!self.anywhere).then(|| Compare::leased(lock.1.clone(), lease));
            let compare = once(self.is_at(&lock.1)).chain(on).collect();
            let success = self.deletes(keys, lock);
            Op::txn(Txn { compare, success, failure: Vec::new() })
        })
    }

    /// Deletes a lock, and with the last part its group. Conditions are those before the transaction: no other part.
    fn deletes(&self, keys: &EtcdKeys, (resource, key): &(Resource, Vec<u8>)) -> Vec<Op> {
        let mut ops = vec![Op::delete(key.clone())];
        if self.mode == Mode::Shared {
            let (parts, end) = keys.parts(resource);
            let behind = [key.as_slice(), b"\0"].concat();
            let compare = vec![Compare::none_in((parts, key.clone())), Compare::none_in((behind, end))];
            let success = vec![Op::delete(keys.group(resource))];
            ops.push(Op::txn(Txn { compare, success, failure: Vec::new() }));
        }
        ops
    }
}

/// Reads who holds a lock, as its key says.
pub(super) fn holder_of(resource: &Resource, lock: &KeyValue) -> FoundHolder {
    let text = String::from_utf8_lossy(&lock.value);
    let (holder, left) = text.rsplit_once(' ').unwrap_or((&text, ""));
    FoundHolder {
        resource: resource.clone(),
        holder: Holder::read(holder),
        shared: !lock.key.ends_with(b"\0w"),
        left: Duration::from_millis(left.parse().unwrap_or(1000)),
    }
}

pub(super) fn number(value: &[u8]) -> Result<u64, Fault> {
    let text = String::from_utf8_lossy(value);
    text.parse().ok().filter(|base| *base <= Token::MAX.get()).ok_or_else(|| {
        Fault::InvalidReply(format!(
            "the base of the tokens is {text:?}, which is not a number: `fencing raise` writes a new one"
        ))
    })
}
