use std::sync::Arc;

use fencing_protocol::{Fault, Reply};

use crate::lock::Holder;

/// Whom the nodes have named as the holders of locks that were asked for.
pub(super) struct SeenHolders {
    /// For each lock that was asked for, and by how many nodes.
    locks: Vec<Vec<(Arc<str>, usize)>>,
}

impl SeenHolders {
    pub(super) fn new(locks: usize) -> SeenHolders {
        SeenHolders { locks: vec![Vec::new(); locks] }
    }

    /// Takes what a node has answered.
    pub(super) fn note(&mut self, reply: &Result<Reply, Fault>) {
        for (lock, part) in reply.iter().flat_map(Reply::parts).enumerate() {
            self.note_one(lock, part);
        }
    }

    fn note_one(&mut self, lock: usize, reply: &Reply) {
        let (Reply::Held { holder: Some(holder), .. } | Reply::Shared { holder: Some(holder), .. }) =
            reply
        else {
            return;
        };
        let Some(seen) = self.locks.get_mut(lock) else { return };
        match seen.iter_mut().find(|(other, _)| other == holder) {
            Some((_, nodes)) => *nodes += 1,
            None => seen.push((Arc::clone(holder), 1)),
        }
    }

    /// Returns the holder that most nodes have named.
    pub(super) fn most(&self, lock: usize) -> Option<Holder> {
        let (holder, _) = self.locks.get(lock)?.iter().max_by_key(|(_, nodes)| *nodes)?;
        Holder::read(holder)
    }
}
