use std::collections::BTreeMap;
use std::time::Duration;

use ::redis::Value;
use ::redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::fault::{fault, nonsense};
use super::node::{RedisNode, connect};
use super::words::field;
use crate::lock::Holder;
use crate::lock::holder::HolderName;
use crate::protocol::{Fault, Stamp};
use crate::resource::Resource;
use crate::token::Token;

const LOCKS: &str = include_str!("locks.lua");
const FORCE: &str = concat!(
    include_str!("common.lua"),
    include_str!("tell.lua"),
    include_str!("note.lua"),
    include_str!("force.lua")
);

/// How many keys the server looks at in one step.
const BATCH: usize = 200;

/// A lock as it stands on one node, for an operator. A lock that several share stands there once for each of
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLock {
    /// What is locked.
    pub resource: Resource,
    /// What the node has written down as the holder. It is another one for each lease.
    pub value: Vec<u8>,
    /// Who that is, if it can be read.
    pub holder: Option<Holder>,
    /// Whether the holder shares the lock, perhaps with others.
    pub shared: bool,
    /// How long until it ends by itself, unless it is renewed. `None` for a lock that was made by hand
    /// and never ends.
    pub remaining: Option<Duration>,
    /// The last token of the resource that this node knows of. It is the token of the lease if a majority of
    /// the nodes says the same.
    pub token: Option<Token>,
}

impl RedisNode {
    /// Reads the locks on the node whose resource is `wanted`, over a connection of its own. It goes through the
    /// keys of the server in small steps, each of which may take as long as `budget`; locks that come or go
    /// meanwhile may be in it or not.
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
            let (next, keys): (String, Vec<Vec<u8>>) =
                within(budget, query(&mut connection, &scan)).await?;
            let names = keys.iter().filter_map(|key| self.keys.resource(key));
            let names: Vec<Resource> = names.filter(&wanted).collect();
            for names in names.chunks(BATCH) {
                for lock in within(budget, self.read_locks(&mut connection, names)).await? {
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

    /// Reads the lock of one resource on the node, over a connection of its own, within `budget`. Empty if nobody
    /// holds it there.
    ///
    /// # Errors
    /// [`Fault`]: why the node did not answer.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind.
    pub async fn lock(
        &self,
        resource: &Resource,
        budget: Duration,
    ) -> Result<Vec<NodeLock>, Fault> {
        let asked = async {
            let mut connection = connect(&self.client).await?;
            self.read_locks(&mut connection, std::slice::from_ref(resource)).await
        };
        within(budget, asked).await
    }

    /// Takes the lock of `resource` from these holders on the node, over a connection of its own, within
    /// `budget`: see [`NodeLock::value`]. Whoever has got the lock since they were seen keeps it. Returns how many
    /// of them had it.
    ///
    /// `seen` is the largest [`NodeLock::token`] of the resource on all nodes. Ask every node, also those where
    /// nobody holds the lock: each notes that this token is used up, or the holder's next renewal
    /// would set the lock again there.
    ///
    /// The node writes it down, with the name of this process, in the sorted set `{namespace}:audit`, which
    /// keeps the last 1000 lines.
    ///
    /// **Fencing.** It stops nobody. A holder goes on until its next renewal, which fails if a majority of the
    /// nodes has forgotten the lock, or until its lease ends. Only a storage that compares tokens refuses its writes, once
    /// it has seen a newer one.
    ///
    /// # Errors
    /// [`Fault`]: why the node did not answer. It may have done it all the same.
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    pub async fn force_release(
        &self,
        resource: &Resource,
        values: &[Vec<u8>],
        seen: Option<Token>,
        budget: Duration,
    ) -> Result<usize, Fault> {
        let keys = &self.keys;
        let by = HolderName::own().unwrap_or_else(|_| HolderName::of_process());
        let holders: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(value)).collect();
        let line =
            format!("release {resource}; held by {}; done by {}", holders.join(", "), by.as_str());
        let Stamp { era, count } = seen.map_or(Stamp { era: 0, count: 0 }, Stamp::from);
        let mut force = ::redis::cmd("EVAL");
        force.arg(FORCE).arg(6).arg(&keys.memory).arg(&keys.quarantine).arg(&keys.latest);
        force.arg(&keys.long).arg(keys.lock(resource)).arg(&keys.audit).arg("").arg(line);
        force
            .arg(resource.as_str())
            .arg(field(resource))
            .arg(format!("{}{resource}", keys.waiting));
        force.arg(format!("{}{resource}", keys.told)).arg(&keys.channel);
        force.arg(era).arg(if seen.is_some() { count + 1 } else { 0 }).arg(values);
        let asked = async {
            let mut connection = connect(&self.client).await?;
            query(&mut connection, &force).await
        };
        within(budget, asked).await
    }

    async fn read_locks(
        &self,
        connection: &mut MultiplexedConnection,
        resources: &[Resource],
    ) -> Result<Vec<NodeLock>, Fault> {
        let mut locks = ::redis::cmd("EVAL");
        locks.arg(LOCKS).arg(resources.len() + 1).arg(&self.keys.memory);
        for resource in resources {
            locks.arg(self.keys.lock(resource));
        }
        for resource in resources {
            locks.arg(field(resource));
        }
        let value: Value = query(connection, &locks).await?;
        read(resources, &value).ok_or_else(|| nonsense("this is no list of locks"))
    }
}

async fn within<T>(
    budget: Duration,
    asked: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    timeout(budget, asked).await.unwrap_or(Err(Fault::TimedOut))
}

async fn query<T: ::redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &::redis::Cmd,
) -> Result<T, Fault> {
    command.query_async(connection).await.map_err(|error| fault(&error))
}

fn read(resources: &[Resource], value: &Value) -> Option<Vec<NodeLock>> {
    let Value::Array(answers) = value else { return None };
    let (era, answers) = answers.split_first()?;
    let era = number(era);
    let mut locks = Vec::new();
    for (resource, answer) in resources.iter().zip(answers) {
        let Value::Array(answer) = answer else { return None };
        let Some((kind, answer)) = answer.split_first() else { continue };
        let (count, holders) = answer.split_first()?;
        let stamp = era.zip(number(count)).map(|(era, count)| Stamp { era, count });
        for holder in holders.chunks(2) {
            let [Value::BulkString(value), Value::Int(left)] = holder else { return None };
            let remaining = match *left {
                -1 => None,
                left => Some(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
            };
            locks.push(NodeLock {
                resource: resource.clone(),
                value: value.clone(),
                holder: std::str::from_utf8(value).ok().and_then(Holder::read),
                shared: matches!(kind, Value::BulkString(kind) if kind == b"shared"),
                remaining,
                token: stamp.and_then(Stamp::token),
            });
        }
    }
    Some(locks)
}

fn number(value: &Value) -> Option<u64> {
    let Value::BulkString(bytes) = value else { return None };
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
