//! What a session does for all of its leases at once: it renews them, and sweeps what is in doubt.

use fencing_protocol::Fault;

use super::claim::{MAX_LOCKS, MAX_SWEPT};
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
    pub(super) async fn round(&self, mut renewals: Vec<Renewal>) -> Result<(), Fault> {
        let start = self.cluster.clock.now();
        let renewed = self.read_and_prolong(&mut renewals).await;
        match &renewed {
            Ok(true) => {
                let mut state = self.state.lock();
                state.renewed = state.renewed.max(start);
            }
            // No lease is renewed.
            Ok(false) => {
                self.end();
                return Ok(());
            }
            Err(_) => {}
        }
        for renewal in renewals {
            let _ = renewal.answer.send(renewed.clone().map(|_| start));
        }
        renewed.map(drop)
    }

    /// Leaves out the renewals whose locks are gone. Returns false if the session is over.
    async fn read_and_prolong(&self, renewals: &mut Vec<Renewal>) -> Result<bool, Fault> {
        let sentinel = || vec![Op::range(Range::one(self.cluster.keys.sentinel(self.lease)))];
        let of = |(number, renewal): (usize, &Renewal)| {
            let keys = renewal.claim.locks.iter().map(|(_, key)| key.clone());
            keys.map(move |key| (number, key)).collect::<Vec<_>>()
        };
        let locks: Vec<_> = renewals.iter().enumerate().flat_map(of).collect();
        let mut kept = vec![true; renewals.len()];
        let mut pages: Vec<_> = locks.chunks(MAX_LOCKS).collect();
        if pages.is_empty() {
            pages.push(&[]);
        }
        let mut last = None;
        for page in pages {
            let reads = page.iter().map(|(_, key)| Op::range(Range::one(key.clone())));
            let mut success: Vec<_> = reads.collect();
            if success.is_empty() {
                success = sentinel();
            }
            let reads = Txn { compare: vec![self.is_mine()], success, failure: sentinel() };
            let (answer, number) = self.call(&reads).await?;
            if !answer.succeeded {
                return Ok(false);
            }
            for (place, (number, _)) in page.iter().enumerate() {
                if let (Some(renewal), Some(kept)) = (renewals.get(*number), kept.get_mut(*number)) {
                    *kept &= renewal.claim.is_in(answer.read(place));
                }
            }
            last = Some((answer.header().member, number));
        }
        let mut kept = kept.into_iter();
        renewals.retain(|_| kept.next().unwrap_or(false));
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
        let keys = &self.cluster.keys;
        let (count, ops) = {
            let doubtful = &self.state.lock().doubtful;
            let ops = doubtful.iter().flat_map(|(claim, _)| claim.sweeps(keys));
            (doubtful.len(), ops.collect::<Vec<_>>())
        };
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
        let mut state = self.state.lock();
        // Others come behind them. The end of the session forgets all.
        let count = count.min(state.doubtful.len());
        state.doubtful.drain(..count);
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
