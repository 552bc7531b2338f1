use std::convert::Infallible;
use std::sync::Arc;

use fencing_protocol::{Fault, Resource};
use scopeguard::guard;

use super::claim::{EtcdClaim, EtcdRefusal};
use super::messages::{EtcdAnswer, Op, Range, Txn};
use super::session::{EtcdSession, decided, in_doubt};
use crate::lock::engine::EngineSession;
use crate::lock::engine::line::PlaceReports;
use crate::random;

impl EngineSession for EtcdSession {
    fn has_ended(&self) -> bool {
        let (now, state) = (self.cluster.clock.now(), self.state.lock());
        state.over || now >= self.expires(state.renewed)
    }

    /// Takes the last place, and watches the one ahead. When this one is the first, it watches the lock.
    async fn keep_place(self: Arc<Self>, resource: Resource, reports: PlaceReports) -> Result<Infallible, Fault> {
        let (cluster, budget) = (&self.cluster, self.budget);
        let (line, holders) = (cluster.keys.places(&resource), cluster.keys.holders(&resource));
        let alone = Range::one(cluster.keys.alone(&resource));
        let key = cluster.keys.place(&resource, random::u128());
        let claim = Arc::new(EtcdClaim::waiting(&resource, key.clone()));
        let put = Op::put(key.clone(), claim.value.clone(), self.lease);
        let (places, holder) = (Range::last(line.clone(), 2, 0), Range { limit: 1, ..Range::all(holders.clone()) });
        let take = Txn { success: vec![put, Op::range(places), Op::range(holder)], ..Txn::default() };
        // A place that is put late is swept, or is kept from being put.
        let doubt = in_doubt(&self, &claim);
        let answer = loop {
            match self.guarded(take.clone(), budget).await {
                Err(EtcdRefusal::Moved) => {}
                answer => break answer?,
            }
        };
        // Dropping this deletes the place. If that fails, it is swept later, or nobody behind it would be woken.
        let _place = guard((Arc::clone(&self), key, claim), |(session, key, claim)| {
            let (runtime, doubt) = (session.runtime.clone(), in_doubt(&session, &claim));
            runtime.spawn(async move {
                let leave = Txn { success: vec![Op::delete(key)], ..Txn::default() };
                if session.cluster.client.ask(&leave, session.budget).await.is_ok() {
                    decided(doubt);
                }
            });
        });
        decided(doubt);
        let (taken, mut seen) = (answer.header().revision, answer.header().revision);
        let mut ahead = answer.read(1).get(1).map(|place| place.key.clone());
        reports.registered(ahead.is_none() && answer.read(2).is_empty());
        while let Some(key) = ahead.take() {
            cluster.client.deleted((key, Vec::new()), seen, budget).await?;
            // Another place may be ahead: the client that left may have been in the middle of the line.
            let first = Range::last(line.clone(), 1, taken - 1);
            let answer = cluster.client.ask(&first, budget).await?;
            seen = answer.header().revision;
            ahead = answer.kvs.first().map(|place| place.key.clone());
            // Shared holders let others in.
            if ahead.is_none() && cluster.client.ask(&alone, budget).await?.kvs.is_empty() {
                reports.released();
            }
        }
        loop {
            seen = cluster.client.deleted(holders.clone(), seen, budget).await?;
            reports.released();
        }
    }
}
