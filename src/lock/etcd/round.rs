//! What a session does for all of its leases at once: it renews them, and sweeps what is in doubt.

use std::sync::Arc;

use fencing_protocol::Fault;

use super::claim::{Claim, MAX_LOCKS, MAX_SWEPT};
use super::client::Repeat;
use super::messages::{Answer, Compare, Is, Op, Range, Txn, TxnAnswer};
use super::session::{EtcdSession, Renewal};

impl EtcdSession {
    /// Renews the etcd lease, and with it these leases.
    ///
    /// First it reads the sentinel and the locks of those leases, each by its key: that costs less than a watch on the
    /// locks of all clients, and finds a lock that an operator has deleted. The reads are linearizable, so that no old
    /// leader answers. Then the same member prolongs the etcd lease. That alone would prove nothing: an old leader does
    /// it, too. Validity counts from before the reads.
    pub(super) async fn round(&self, renewals: Vec<Renewal>) -> Result<(), Fault> {
        let start = self.cluster.clock.now();
        let mut kept: Vec<_> = renewals.into_iter().map(|renewal| (renewal, true)).collect();
        match self.read_and_prolong(&mut kept).await {
            Ok(true) => {
                let mut state = self.state.lock();
                state.renewed = state.renewed.max(start);
            }
            Ok(false) => self.end(),
            Err(fault) => {
                for (renewal, _) in kept {
                    let _ = renewal.answer.send(Err(fault.clone()));
                }
                return Err(fault);
            }
        }
        for (renewal, kept) in kept {
            let _ = renewal.answer.send(Ok(kept.then_some(start)));
        }
        Ok(())
    }

    /// Returns false if the session is over.
    async fn read_and_prolong(&self, renewals: &mut [(Renewal, bool)]) -> Result<bool, Fault> {
        let key = self.cluster.keys.sentinel(self.lease);
        let sentinel = || vec![Op::range(Range::one(key.clone()))];
        let locks: Vec<(usize, Vec<u8>)> = renewals
            .iter()
            .enumerate()
            .flat_map(|(number, (renewal, _))| {
                renewal.claim.locks.iter().map(move |(_, key)| (number, key.clone()))
            })
            .collect();
        let mut pages: Vec<_> = locks.chunks(MAX_LOCKS).collect();
        if pages.is_empty() {
            pages.push(&[]);
        }
        let mut last = None;
        for page in pages {
            let read = |(_, key): &(_, Vec<u8>)| {
                Op::range(Range { keys_only: true, ..Range::one(key.clone()) })
            };
            let mut success: Vec<_> = page.iter().map(read).collect();
            if success.is_empty() {
                success = sentinel();
            }
            let reads = Txn { compare: vec![self.is_mine()], success, failure: sentinel() };
            let (answer, member) = self.call(&reads).await?;
            if !answer.succeeded {
                return Ok(false);
            }
            for (place, (number, _)) in page.iter().enumerate() {
                if let Some((renewal, kept)) = renewals.get_mut(*number) {
                    let found = answer.read(place).first().map(|lock| lock.created);
                    *kept &= found == Some(renewal.revision);
                }
            }
            last = Some((answer.header().member, member));
        }
        let Some((member, number)) = last else { return Ok(true) };
        let kept = self.cluster.client.keep_alive(number, self.lease, self.budget).await;
        let kept = kept.map_err(|failure| failure.fault)?;
        if kept.header().member != member {
            return Err(Fault::Disconnected("another member has answered".into()));
        }
        Ok(kept.seconds > 0)
    }

    /// Deletes the locks of all owners in doubt, and changes the sentinel: of a transaction that compares the earlier
    /// one nothing takes effect any more.
    pub(super) async fn sweep(&self) -> Result<(), Fault> {
        let doubtful = self.state.lock().doubtful.clone();
        let keys = &self.cluster.keys;
        let ops: Vec<_> = doubtful.iter().flat_map(|claim| claim.sweeps(keys)).collect();
        for page in ops.chunks(MAX_SWEPT) {
            let sentinel = Op::put(keys.sentinel(self.lease), Vec::new(), self.lease);
            let success = page.iter().cloned().chain([sentinel]).collect();
            let sweep = Txn { compare: vec![self.is_mine()], success, failure: Vec::new() };
            let (answer, _) = self.call(&sweep).await?;
            if !answer.succeeded {
                self.end();
                return Ok(());
            }
            self.note_modified(answer.header().revision);
        }
        let is_swept = |claim: &Arc<Claim>| doubtful.iter().any(|it| Arc::ptr_eq(it, claim));
        self.state.lock().doubtful.retain(|claim| !is_swept(claim));
        self.swept.notify_waiters();
        Ok(())
    }

    fn is_mine(&self) -> Compare {
        Compare::created(self.cluster.keys.sentinel(self.lease), Is::Equal, self.created)
    }

    /// Sends what may be sent again. The etcd lease may be gone.
    async fn call(&self, txn: &Txn) -> Result<(TxnAnswer, usize), Fault> {
        let called = self.cluster.client.call(txn, self.budget, Repeat::Elsewhere).await;
        called.map_err(|failure| {
            if failure.is_lease_gone() {
                self.end();
            }
            failure.fault
        })
    }
}
