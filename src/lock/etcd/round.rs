use std::iter::once;
use std::sync::atomic::Ordering;

use fencing_protocol::Fault;

use super::claim::{EtcdRefusal, MAX_OPS, MAX_SWEPT};
use super::client::Repeat;
use super::messages::{Compare, EtcdAnswer, Is, Op, Range, Txn};
use super::session::{Doubtful, EtcdRenewal, EtcdSession};

impl EtcdSession {
    /// Renews the etcd lease, and with it these leases.
    ///
    /// First it reads the sentinel and the locks of those leases, each by its key: that costs less than a watch on the
    /// locks of all clients, and finds a lock that an operator has deleted. The reads are linearizable, so that no old
    /// leader answers. Then the same member prolongs the etcd lease. That alone would prove nothing: an old leader does
    /// it, too. Validity counts from before the reads.
    pub(super) async fn round(&self, renewals: Vec<EtcdRenewal>) -> Result<(), Fault> {
        let start = self.cluster.clock.now();
        let kept = self.read_and_prolong(&renewals).await;
        match &kept {
            Ok(Some(_)) => {
                let mut state = self.state.lock();
                state.renewed = state.renewed.max(start);
            }
            Ok(None) => self.end(),
            Err(_) => {}
        }
        // If the session is over, no lease is kept.
        let mut kept = kept.map(|kept| kept.unwrap_or_default().into_iter());
        for renewal in renewals {
            let _ = renewal.answer.send(match &mut kept {
                Ok(kept) => Ok(kept.next().unwrap_or(false).then_some(start)),
                Err(fault) => Err(fault.clone()),
            });
        }
        kept.map(drop)
    }

    /// Returns for each renewal whether its locks are still there; nothing if the session is over.
    async fn read_and_prolong(&self, renewals: &[EtcdRenewal]) -> Result<Option<Vec<bool>>, Fault> {
        let of = |(number, renewal): (usize, &EtcdRenewal)| {
            let keys = renewal.claim.locks.iter().map(|(_, key)| key.clone());
            keys.map(move |key| (Some(number), key)).collect::<Vec<_>>()
        };
        // The sentinel is read even if no lock is: an old leader cannot answer a read.
        let sentinel = self.cluster.keys.sentinel(self.lease);
        let is_mine = Compare::created(sentinel.clone(), Is::Equal, self.created);
        let keys: Vec<_> = once((None, sentinel)).chain(renewals.iter().enumerate().flat_map(of)).collect();
        let (mut kept, mut last) = (vec![true; renewals.len()], None);
        for page in keys.chunks(MAX_OPS) {
            let reads = page.iter().map(|(_, key)| Op::range(Range::one(key.clone())));
            let reads = Txn { compare: vec![is_mine.clone()], success: reads.collect(), failure: Vec::new() };
            let (answer, number) = self.cluster.client.call(&reads, self.budget, Repeat::Elsewhere).await?;
            if !answer.succeeded {
                return Ok(None);
            }
            for (place, (number, _)) in page.iter().enumerate() {
                let Some(number) = *number else { continue };
                if let (Some(renewal), Some(kept)) = (renewals.get(number), kept.get_mut(number)) {
                    *kept &= renewal.claim.is_in(answer.read(place));
                }
            }
            last = Some((answer.header().member, number));
        }
        let Some((member, number)) = last else { return Ok(None) };
        let prolonged = self.cluster.client.keep_alive(number, self.lease, self.budget).await?;
        if prolonged.header().member != member {
            return Err(Fault::Disconnected("another member has answered".into()));
        }
        Ok((prolonged.seconds > 0).then_some(kept))
    }

    /// Deletes the locks of owners in doubt, and changes the sentinel, so that no transaction that compares the earlier
    /// one takes effect any more. It sweeps one page of owners, because renewals wait for it.
    pub(super) async fn sweep(&self) -> Result<(), Fault> {
        let keys = &self.cluster.keys;
        let (mut count, mut ops) = (0, Vec::new());
        for Doubtful { claim, on, .. } in &self.state.lock().doubtful {
            // An owner of more locks has two pages.
            if count > 0 && ops.len() + claim.locks.len() > MAX_SWEPT {
                break;
            }
            ops.extend(claim.sweeps(keys, *on));
            count += 1;
        }
        for page in ops.chunks(MAX_SWEPT) {
            let sentinel = Op::put(keys.sentinel(self.lease), Vec::new(), self.lease);
            let sweep = Txn { success: page.iter().cloned().chain([sentinel]).collect(), ..Txn::default() };
            // Guarded: a late copy of this request must not delete a lock that was moved to this session since. If
            // another copy came first, this one is refused, and the next sweep deletes the rest.
            match self.guarded(sweep, self.budget).await {
                Ok(answer) => self.modified.fetch_max(answer.header().revision, Ordering::AcqRel),
                Err(EtcdRefusal::Failed(failure)) => return Err(failure.fault),
                Err(_) => return Ok(()),
            };
        }
        let mut state = self.state.lock();
        // New owners were added behind the swept ones. `end` clears the list.
        let count = count.min(state.doubtful.len());
        state.doubtful.drain(..count);
        self.swept.notify_waiters();
        Ok(())
    }
}
