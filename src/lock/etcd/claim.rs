use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Mode, NonEmpty, Owner, Resource, Token};

use super::keys::Keys;
use super::messages::{Compare, Is, KeyValue, Op, Range, Txn, TxnAnswer};
use crate::holder::{Holder, HolderName};
use crate::random;

/// The most locks of one transaction: etcd takes 128 operations, and one of them reads the base.
pub(super) const MAX_LOCKS: usize = 127;
/// The most locks of one sweep: each is a transaction in a transaction in the sweep.
pub(super) const MAX_SWEPT: usize = 123;

/// The locks that one attempt asks for, under an owner that no other attempt has.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    /// What stands in each lock: the owner, its name, and for how many milliseconds it is closed at most.
    value: Vec<u8>,
    pub(super) locks: NonEmpty<(Resource, Vec<u8>)>,
}

/// Who holds a lock, as its key says.
#[derive(Debug)]
pub(super) struct FoundHolder {
    pub(super) resource: Resource,
    pub(super) holder: Option<Holder>,
    pub(super) shared: bool,
    /// For how long the lock is closed at most.
    pub(super) left: Duration,
}

/// What an attempt has come to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is granted: with the base, the revision, and that of the token.
    Granted {
        base: u64,
        revision: i64,
        counted: i64,
    },
    Held(FoundHolder),
    /// The sentinel has changed at this revision. Nothing was asked of the locks.
    Moved(i64),
    /// The session is over.
    Over,
}

impl Claim {
    pub(super) fn new(
        keys: &Keys,
        resources: &NonEmpty<Resource>,
        mode: Mode,
        holder: &HolderName,
        closed_for: Duration,
    ) -> Claim {
        let owner = Owner(random::stamped());
        let lock = |resource: Resource| {
            let key = keys.lock(&resource, mode, owner);
            (resource, key)
        };
        let value = format!("{owner} {}\0{}", holder.as_str(), closed_for.as_millis());
        Claim { owner, mode, value: value.into(), locks: resources.clone().map(lock) }
    }

    /// Returns it as it stands in the locks after an early release, closed for this long.
    pub(super) fn closing(&self, rest: Duration) -> Arc<Claim> {
        let name = self.value.split(|byte| *byte == 0).next().unwrap_or_default();
        let value = [name, b".\0", rest.as_millis().to_string().as_bytes()].concat();
        let Claim { owner, mode, ref locks, .. } = *self;
        Arc::new(Claim { owner, mode, value, locks: locks.clone() })
    }

    /// Takes all locks if they are free and the session's sentinel is as it was at `modified`: a sweep changes it, and
    /// no earlier transaction takes effect after that. A sentinel is there only while the service is not closed.
    pub(super) fn acquire(&self, keys: &Keys, lease: i64, modified: i64) -> Txn {
        let sentinel = keys.sentinel(lease);
        let mut compare = vec![Compare::modified(sentinel.clone(), modified)];
        let mut success = vec![Op::range(Range::one(keys.base()))];
        let mut failure = vec![Op::range(Range::one(sentinel))];
        for (resource, key) in &self.locks {
            let put = Op::put(key.clone(), self.value.clone(), lease);
            let holders = Range { limit: 1, ..Range::all(keys.holders(resource)) };
            failure.push(Op::range(holders));
            if self.mode == Mode::Exclusive {
                compare.push(Compare::none_in(keys.holders(resource)));
                success.push(put);
                continue;
            }
            let (group, drain) = (keys.group(resource), keys.drain(resource));
            compare.push(Compare::absent(keys.alone(resource)));
            compare.push(Compare::absent(drain.clone()));
            let (parts, end) = keys.parts(resource);
            let joins = Txn {
                compare: vec![
                    Compare::created(group.clone(), Is::Greater, 0),
                    Compare::created(parts, Is::Greater, 0).up_to(end),
                ],
                success: vec![put.clone()],
                failure: vec![Op::put(group.clone(), Vec::new(), lease), put],
            };
            success.extend([Op::txn(joins), Op::range(Range::one(group))]);
            failure.push(Op::range(Range::one(drain)));
        }
        Txn { compare, success, failure }
    }

    /// Reads the answer to [`acquire`](Claim::acquire) of the session whose sentinel was created at `created`.
    pub(super) fn outcome(
        &self,
        answer: &TxnAnswer,
        revision: i64,
        (created, modified): (i64, i64),
    ) -> Result<Outcome, String> {
        if answer.succeeded {
            let base = answer.read(0).first().ok_or("the base of its tokens is missing")?;
            let base = number(&base.value)?;
            let counted = match self.mode {
                Mode::Exclusive => revision,
                Mode::Shared => answer.read(2).first().ok_or("the group is missing")?.modified,
            };
            return Ok(Outcome::Granted { base, revision, counted });
        }
        match answer.read(0).first() {
            // An earlier one is that of a cluster that was restored from a backup.
            Some(sentinel) if sentinel.created == created && sentinel.modified > modified => {
                return Ok(Outcome::Moved(sentinel.modified));
            }
            Some(sentinel) if sentinel.created == created && sentinel.modified == modified => {}
            _ => return Ok(Outcome::Over),
        }
        let found = self.locks.iter().zip(1..).find_map(|((resource, _), number)| {
            answer.read(number).first().map(|holder| FoundHolder::read(resource, holder))
        });
        let (resource, _) = self.locks.first();
        // A client waits to hold it alone.
        let closing = || FoundHolder {
            resource: resource.clone(),
            holder: None,
            shared: true,
            left: Duration::from_secs(1),
        };
        Ok(Outcome::Held(found.unwrap_or_else(closing)))
    }

    /// Releases all locks, if each is still the one that was acquired at this revision.
    pub(super) fn release(&self, keys: &Keys, revision: i64) -> Txn {
        let still = |(_, key): &(_, Vec<u8>)| Compare::created(key.clone(), Is::Equal, revision);
        Txn {
            compare: self.locks.iter().map(still).collect(),
            success: self.locks.iter().flat_map(|lock| self.deletes(keys, lock)).collect(),
            failure: Vec::new(),
        }
    }

    /// Returns, for each lock, what releases it if it is this one's.
    pub(super) fn sweeps<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = Op> + 'a {
        self.locks.iter().map(|lock| {
            let compare = Compare::value(lock.1.clone(), Is::Equal, self.value.clone());
            let success = self.deletes(keys, lock);
            Op::txn(Txn { compare: vec![compare], success, failure: Vec::new() })
        })
    }

    /// Keeps the locks closed on another etcd lease, if they are still those of this revision.
    pub(super) fn keep_closed(&self, revision: i64, lease: i64) -> Txn {
        let still = |(_, key): &(_, Vec<u8>)| Compare::created(key.clone(), Is::Equal, revision);
        let put = |(_, key): &(_, Vec<u8>)| Op::put(key.clone(), self.value.clone(), lease);
        Txn {
            compare: self.locks.iter().map(still).collect(),
            success: self.locks.iter().map(put).collect(),
            failure: Vec::new(),
        }
    }

    /// Deletes a lock, and with the last part its group. Conditions are those before the transaction: no other part.
    fn deletes(&self, keys: &Keys, (resource, key): &(Resource, Vec<u8>)) -> Vec<Op> {
        let mut ops = vec![Op::delete(key.clone())];
        if self.mode == Mode::Shared {
            let (parts, end) = keys.parts(resource);
            let behind = [key.as_slice(), b"\0"].concat();
            ops.push(Op::txn(Txn {
                compare: vec![
                    Compare::none_in((parts, key.clone())),
                    Compare::none_in((behind, end)),
                ],
                success: vec![Op::delete(keys.group(resource))],
                failure: Vec::new(),
            }));
        }
        ops
    }
}

impl FoundHolder {
    pub(super) fn read(resource: &Resource, found: &KeyValue) -> FoundHolder {
        let text = String::from_utf8_lossy(&found.value);
        let (holder, left) = text.split_once('\0').unwrap_or((&text, ""));
        FoundHolder {
            resource: resource.clone(),
            holder: Holder::read(holder),
            shared: !found.key.ends_with(b"\0w"),
            left: Duration::from_millis(left.parse().unwrap_or(1000)),
        }
    }
}

/// Reads a number that a client has written.
pub(super) fn number(value: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(value);
    text.parse().ok().filter(|base| *base <= Token::MAX.get()).ok_or_else(|| {
        format!("{text:?} is no base of tokens; `fencing etcd raise` writes a new one")
    })
}
