use super::{Moment, Store};
use crate::message::{Reply, Request};
use crate::{Membership, Mode, Stamp};

impl Store {
    /// Answers requests of one kind for several resources, in one step. Of locks that are asked for it
    /// grants all or none.
    pub(super) fn several(&mut self, me: &Membership, parts: &[Request], at: Moment) -> Reply {
        if !self.admits(me) {
            return self.refusal(me);
        }
        if let Some(refusal) = self.in_the_way(parts, at) {
            return refusal;
        }
        Reply::Several(parts.iter().map(|part| self.answer(me, part, at)).collect())
    }

    /// Returns what stands against granting all of the locks that are asked for, if anything does.
    fn in_the_way(&mut self, parts: &[Request], at: Moment) -> Option<Reply> {
        let mut answers = Vec::new();
        for part in parts {
            let Request::Acquire { resource, owner, .. } = part else { continue };
            self.expire(part, at.now);
            if let Some((until, _)) = self.quarantine {
                return Some(Reply::Quarantined { remaining: until.since(at.now) });
            }
            let has = self.holds(resource, *owner);
            let held = self.held(resource, Mode::Exclusive, at.now).filter(|_| !has);
            let count = self.memory.counts.get(resource);
            let free = !has && held.is_none();
            answers.push(held.unwrap_or(Reply::Free));
            if free && count.is_some_and(|n| *n >= Stamp::MAX_COUNT) {
                self.memory.full = true;
                return Some(Reply::Exhausted);
            }
        }
        let held = answers.iter().any(|answer| *answer != Reply::Free);
        held.then_some(Reply::Several(answers))
    }
}
