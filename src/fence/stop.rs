use std::sync::Weak;

use super::gate::{Flight, Stoppable};
use super::{Admission, Stale};

impl Admission {
    /// Lets newer requests stop this work from outside, where the fence drops older ones.
    /// Returns the refusal if one has asked for that already.
    pub(crate) fn on_stop(&self, work: Weak<dyn Stoppable>) -> Option<Stale> {
        if self.drops_older { self.flight.on_stop(work) } else { None }
    }
}

impl Flight {
    fn on_stop(&self, work: Weak<dyn Stoppable>) -> Option<Stale> {
        let mut entries = self.gate.entries();
        let entry = entries.get_mut(&self.resource)?;
        let asked = entry.view.borrow().stop;
        let stale = self.check(asked).err();
        if stale.is_none() {
            entry.stoppable.insert((self.token, self.number), work);
        }
        stale
    }
}
