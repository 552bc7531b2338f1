use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::claim::{holder_of, number};
use super::client::Repeat;
use super::cluster::Cluster;
use super::keys::Span;
use super::messages::{Compare, Is, KeyValue, LeaseTimeToLive, Op, Range, Txn, TxnAnswer};
use super::session::MIN_SECONDS;
use crate::lock::engine::token_base::token;
use crate::lock::operator::{LeaseRecord, Operator};

const PAGE: i64 = 1000;

impl Operator for Cluster {
    fn leases<'a>(&'a self, after: Option<&'a Resource>, limit: u32) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        let keys = &self.keys;
        let (start, end) = keys.every("l/");
        let start = after.map_or(start, |after| keys.holders(after).1);
        self.read((start, end), limit).boxed()
    }

    fn leases_of<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        self.read(self.keys.holders(resource), 1).boxed()
    }

    fn force_release<'a>(&'a self, lease: &'a LeaseRecord) -> BoxFuture<'a, Result<bool, Fault>> {
        async move {
            let (keys, resource) = (&self.keys, &lease.resource);
            let Ok(revision) = lease.owner.parse() else { return Ok(false) };
            let (compare, success) = if lease.shared {
                let group = keys.group(resource);
                let delete = vec![Op::delete_all(keys.parts(resource)), Op::delete(group.clone())];
                (Compare::modified(group, revision), delete)
            } else {
                let alone = keys.alone(resource);
                (Compare::created(alone.clone(), Is::Equal, revision), vec![Op::delete(alone)])
            };
            let end = Txn { compare: vec![compare], success, failure: Vec::new() };
            self.client.check_members(self.budget).await?;
            Ok(self.client.call(&end, self.budget, Repeat::Never).await?.0.succeeded)
        }
        .boxed()
    }

    fn raise(&self, above: Token) -> BoxFuture<'_, Result<(), Fault>> {
        async move {
            self.client.check_members(self.budget).await?;
            while !self.try_raise(above.get()).await? {}
            Ok(())
        }
        .boxed()
    }
}

impl Cluster {
    /// Raises the base and deletes every lock, place and session at once. While `closed` is there, no session starts:
    /// for as long as an earlier one may have renewed its leases. Returns false if the base was changed meanwhile.
    async fn try_raise(&self, above: u64) -> Result<bool, Fault> {
        let keys = &self.keys;
        let [base, longest] = [keys.base(), keys.longest()].map(|key| Op::range(Range::one(key)));
        let found = self.ask(Txn { success: vec![base, longest], ..Txn::default() }).await?;
        let known = found.read(0).first();
        // What is no number is replaced.
        let present = known.and_then(|base| number(&base.value).ok()).unwrap_or(0);
        let longest = found.read(1).first().and_then(|longest| number(&longest.value).ok());
        let lease = self.grant(longest.unwrap_or(0).max(MIN_SECONDS), self.budget).await?;
        let raised = present.max(above).to_string();
        let mut success = vec![Op::put(keys.base(), raised.into(), 0), Op::put(keys.closed(), Vec::new(), lease)];
        success.extend(["l/", "g/", "d/", "q/", "s/"].map(|kind| Op::delete_all(keys.every(kind))));
        let modified = known.map_or(0, |base| base.modified);
        let compare = vec![Compare::modified(keys.base(), modified)];
        Ok(self.ask(Txn { compare, success, failure: Vec::new() }).await?.succeeded)
    }

    async fn read(&self, (mut start, end): Span, limit: u32) -> Result<Vec<LeaseRecord>, Fault> {
        self.client.check_members(self.budget).await?;
        let keys = &self.keys;
        let (mut names, mut found) = (BTreeSet::new(), Vec::<(Resource, bool, KeyValue)>::new());
        'pages: loop {
            let page = Range { limit: PAGE, ..Range::all((start.clone(), end.clone())) };
            let page = self.client.ask(&page, self.budget).await?.kvs;
            let Some(last) = page.last() else { break };
            start = [last.key.as_slice(), b"\0"].concat();
            for lock in page {
                let Some((resource, shared)) = keys.resource(&lock.key) else { continue };
                names.insert(resource.clone());
                if names.len() > usize::try_from(limit).unwrap_or(usize::MAX) {
                    break 'pages;
                }
                found.push((resource, shared, lock));
            }
        }
        let base = self.client.ask(&Range::one(keys.base()), self.budget).await?.kvs;
        let base = base.first().map_or(Ok(0), |base| number(&base.value))?;
        let (mut groups, mut left) = (BTreeMap::new(), BTreeMap::new());
        let mut records = Vec::new();
        for (resource, shared, lock) in found {
            if shared && !groups.contains_key(&resource) {
                let group = Range::one(keys.group(&resource));
                let group = self.client.ask(&group, self.budget).await?;
                groups.insert(resource.clone(), group.kvs.first().map_or(0, |group| group.modified));
            }
            let group = groups.get(&resource).copied().filter(|_| shared);
            let revision = group.filter(|group| *group > 0).unwrap_or(lock.created);
            if let std::collections::btree_map::Entry::Vacant(place) = left.entry(lock.lease) {
                let ask = LeaseTimeToLive { id: lock.lease };
                let answer = self.client.ask(&ask, self.budget).await?;
                place.insert(u64::try_from(answer.seconds).ok().map(Duration::from_secs));
            }
            records.push(LeaseRecord {
                token: token(base, revision)?,
                holder: holder_of(&resource, &lock).holder,
                shared,
                remaining: left.get(&lock.lease).copied().flatten(),
                owner: group.unwrap_or(revision).to_string(),
                resource,
            });
        }
        Ok(records)
    }

    async fn ask(&self, txn: Txn) -> Result<TxnAnswer, Fault> {
        Ok(self.client.ask(&txn, self.budget).await?)
    }
}
