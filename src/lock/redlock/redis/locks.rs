use std::collections::BTreeMap;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Value, from_redis_value};
use fencing_protocol::{Fault, Fleet, Incarnation, Membership, Resource, Stamp, Token, fault_of};

use super::fault::invalid;
use super::node::{RedisNode, connect, info, query};
use super::{reply, scripts};
use crate::holder::{Holder, own_name, process_name};
use crate::lock::redlock::node::within;

const LOCKS: &str = include_str!("locks.lua");
const FORCE: &str = concat!(
    include_str!("common.lua"),
    include_str!("notify.lua"),
    include_str!("note.lua"),
    include_str!("force.lua")
);

/// Keys scanned in one step.
const BATCH: usize = 200;
/// The holders of a shared lock that are named in a list.
const MAX_LISTED: usize = 100;
/// The same where only one lock is asked for.
const MAX_HOLDERS: usize = 100_000;
/// The length of a lock's value in the audit, in characters.
const MAX_SHOWN: usize = 128;
/// The holders that a line of the audit names.
const MAX_SHOWN_HOLDERS: usize = 16;

/// A lock on one node, for an operator. A shared lock is listed once for each holder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLock {
    /// The resource.
    pub resource: Resource,
    /// The value of the lock on the node; it differs for each lease.
    pub value: Vec<u8>,
    /// The holder, if the value can be read.
    pub holder: Option<Holder>,
    /// Whether the lock is shared.
    pub shared: bool,
    /// The number of holders on this node. Of more than 100, only those whose shares end last are listed.
    pub holders: u64,
    /// Time until it expires, unless it is renewed. `None` for a lock that was made by hand and never ends.
    pub remaining: Option<Duration>,
    /// The last token of the resource that this node knows of: that of the lease, if a majority of nodes says the same.
    pub token: Option<Token>,
}

/// The state of one resource on a node that is admitted in a fleet, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeView {
    /// The holders of the lock there. Empty if it is free.
    pub locks: Vec<NodeLock>,
    /// The resource's last token that it knows, also of a free lock; if none, the one before the first of its era.
    pub known: Option<Token>,
    stamp: Stamp,
    fleet: Fleet,
    resource: Resource,
}

/// The result of a forced release on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// Removed from this many holders.
    Taken(usize),
    /// The lock was free. The node has noted that the holders' token is used up.
    Free,
    /// Another holder keeps it. Nothing was noted: if it is a failed attempt, the old holder may get this node again.
    HeldByAnother,
}

struct LockReports {
    admitted: Vec<u8>,
    era: u64,
    /// The count of each, and who holds it.
    locks: Vec<(u64, Vec<NodeLock>)>,
}

impl RedisNode {
    /// Reads the locks on the node whose resource is `wanted`, over a connection of its own. It goes through the
    /// server's keys in small steps of up to `budget` each; locks that come or go meanwhile may be in it or not.
    ///
    /// It only reads. The user of the node needs the right to `SCAN`.
    ///
    /// # Errors
    /// [`Fault`]: why the node did not answer.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind.
    pub async fn locks(
        &self,
        wanted: impl Fn(&Resource) -> bool + Send,
        budget: Duration,
    ) -> Result<Vec<NodeLock>, Fault> {
        let mut connection = within(budget, connect(&self.client)).await?;
        let (mut cursor, mut found) = (String::from("0"), BTreeMap::new());
        loop {
            let mut scan = ::redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(self.keys.every_lock()).arg("COUNT").arg(BATCH);
            let (next, keys): (String, Vec<Vec<u8>>) = within(budget, query(&mut connection, &scan)).await?;
            let names = keys.iter().filter_map(|key| self.keys.resource(key));
            let names: Vec<Resource> = names.filter(&wanted).collect();
            for names in names.chunks(BATCH) {
                let answers = within(budget, self.read_locks(&mut connection, names, MAX_LISTED)).await?;
                for lock in answers.locks.into_iter().flat_map(|(_, locks)| locks) {
                    // A key may be seen twice.
                    found.insert((lock.resource.clone(), lock.value.clone()), lock);
                }
            }
            cursor = next;
            if cursor == "0" {
                return Ok(found.into_values().collect());
            }
        }
    }

    /// Reads the lock of one resource on the node, over a connection of its own, within `budget`.
    ///
    /// # Errors
    /// [`Fault`]: why the node did not answer, or [`Fault::NotAdmitted`] where it is not admitted in this fleet.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind.
    pub async fn lock(&self, fleet: &Fleet, resource: &Resource, budget: Duration) -> Result<NodeView, Fault> {
        let asked = async {
            let mut connection = connect(&self.client).await?;
            let me = member(&mut connection, fleet).await?;
            let resources = std::slice::from_ref(resource);
            let answers = self.read_locks(&mut connection, resources, MAX_HOLDERS).await?;
            if answers.admitted != scripts::marker(&me).as_bytes() {
                return Err(Fault::NotAdmitted);
            }
            let (count, locks) = answers.locks.into_iter().next().unwrap_or_default();
            let stamp = Stamp { era: answers.era, count };
            let (fleet, resource) = (fleet.clone(), resource.clone());
            Ok(NodeView { locks, known: stamp.token(), stamp, fleet, resource })
        };
        within(budget, asked).await
    }

    /// Takes the lock of `resource` from these holders on the node, over a connection of its own, within
    /// `budget`: see [`NodeLock::value`]. A holder that has got the lock since they were seen keeps it.
    ///
    /// The lock is free, and the holder's next renewal fails, when a majority of the nodes has answered
    /// [`Forced::Taken`] or [`Forced::Free`]. With fewer, run it again.
    ///
    /// `seen` is what a majority of the nodes of this fleet has shown with [`RedisNode::lock`]. Ask every node, also
    /// one without the lock: each records the largest of these tokens as used, so that the holder's next renewal cannot
    /// set the lock there. Views of other fleets, and of other resources, do not count.
    ///
    /// The node records it, with this process's name, in the sorted set `{namespace}:audit` of the last 1000 lines.
    ///
    /// **Fencing.** It does not stop the holder before its next renewal (which fails once a majority has answered as
    /// above) or its lease's end. Only a storage that compares tokens refuses its writes, once it has seen a newer one.
    ///
    /// # Errors
    /// [`Fault`]: why the node did not answer; it may have done it anyway. A node that is not admitted in this
    /// fleet refuses. [`Fault::Exhausted`] where no token of its era is larger: nothing was taken there.
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    pub async fn force_release(
        &self,
        fleet: &Fleet,
        resource: &Resource,
        values: &[Vec<u8>],
        seen: &[NodeView],
        budget: Duration,
    ) -> Result<Forced, Fault> {
        let keys = &self.keys;
        let by = own_name().unwrap_or_else(|_| process_name());
        let line = format!("release {resource}; held by {}; done by {by}", shown(values));
        let of_it = seen.iter().filter(|view| view.fleet == *fleet && view.resource == *resource);
        let Some(Stamp { era, count }) = of_it.map(|view| view.stamp).max() else {
            return Err(Fault::NotAdmitted);
        };
        let asked = async {
            let mut connection = connect(&self.client).await?;
            let me = member(&mut connection, fleet).await?;
            let mut force = ::redis::cmd("EVAL");
            force.arg(scripts::head(keys, &me) + FORCE).arg(1);
            keys.write_lock(&mut force, resource);
            force.arg(line).arg(era).arg(count).arg(values);
            let value: Value = query(&mut connection, &force).await?;
            let odd = || invalid("this is not an answer to a release by force");
            let Value::Array(parts) = &value else { return Err(odd()) };
            if let [Value::BulkString(forced), Value::Int(taken)] = parts.as_slice()
                && forced == b"forced"
            {
                let taken = usize::try_from(*taken).map_err(|_| odd())?;
                return Ok(if taken == 0 { Forced::Free } else { Forced::Taken(taken) });
            }
            if matches!(parts.as_slice(), [Value::BulkString(other)] if other == b"other") {
                return Ok(Forced::HeldByAnother);
            }
            let reply = reply::reply(Duration::ZERO, parts);
            Err(reply.map_or_else(odd, |reply| fault_of(Ok(reply))))
        };
        within(budget, asked).await
    }

    async fn read_locks(
        &self,
        connection: &mut MultiplexedConnection,
        resources: &[Resource],
        most: usize,
    ) -> Result<LockReports, Fault> {
        let mut locks = ::redis::cmd("EVAL");
        locks.arg(self.keys.constants() + LOCKS).arg(resources.len());
        resources.iter().for_each(|resource| self.keys.write_lock(&mut locks, resource));
        locks.arg(most);
        let value: Value = query(connection, &locks).await?;
        read(resources, value).ok_or_else(|| invalid("this is not a list of locks"))
    }
}

async fn member(connection: &mut MultiplexedConnection, fleet: &Fleet) -> Result<Membership, Fault> {
    let incarnation = Incarnation::new(&info(connection).await?.run_id);
    Ok(Membership { incarnation, fleet: fleet.clone() })
}

/// Returns the first holders, for a short audit line: a lock may have very many, and others may have written anything.
fn shown(values: &[Vec<u8>]) -> String {
    let shown = |value: &Vec<u8>| -> String {
        let text = String::from_utf8_lossy(value);
        text.chars().flat_map(char::escape_debug).take(MAX_SHOWN).collect()
    };
    let mut holders: Vec<_> = values.iter().take(MAX_SHOWN_HOLDERS).map(shown).collect();
    if values.len() > MAX_SHOWN_HOLDERS {
        holders.push(format!("and {} more", values.len() - MAX_SHOWN_HOLDERS));
    }
    holders.join(", ")
}

/// The kind of a lock, its count, how many hold it, and some of them with the time that is left.
type LockAnswer = (String, u64, u64, Vec<(Vec<u8>, i64)>);

fn read(resources: &[Resource], value: Value) -> Option<LockReports> {
    let (admitted, era, answers): (Vec<u8>, String, Vec<LockAnswer>) = from_redis_value(value).ok()?;
    // A node that has never been admitted has none.
    let era: Option<u64> = era.parse().ok();
    let report = |(resource, (kind, count, owners, holders)): (&Resource, LockAnswer)| {
        let shared = kind == "shared";
        let token = era.filter(|_| count > 0).and_then(|era| Stamp { era, count }.token());
        let lock = |(value, left): (Vec<u8>, i64)| NodeLock {
            resource: resource.clone(),
            holder: std::str::from_utf8(&value).ok().and_then(Holder::read),
            value,
            shared,
            holders: owners,
            remaining: match left {
                -1 if !shared => None,
                left => Some(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
            },
            token,
        };
        (count, holders.into_iter().map(lock).collect())
    };
    let locks = resources.iter().zip(answers).map(report).collect();
    Some(LockReports { admitted, era: era.unwrap_or(0), locks })
}
