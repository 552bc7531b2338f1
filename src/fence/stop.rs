use std::sync::Weak;

use super::gate::{Flight, Stoppable};
use super::{Admission, Stale};

impl Admission {
    /// Reports whether newer requests may stop this one.
    pub(crate) fn may_be_stopped(&self) -> bool {
        self.drops_older
    }

    /// Lets newer requests stop this work from outside, where the fence drops older ones.
    /// Returns the refusal if one has asked for that already.
    pub(crate) fn on_stop(&self, work: Weak<dyn Stoppable>) -> Option<Stale> {
        if self.drops_older { self.flight.on_stop(work) } else { None }
    }
}

impl Flight {
    fn on_stop(&self, work: Weak<dyn Stoppable>) -> Option<Stale> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&self.key)?;
        let asked = entry.view.stop;
        let stale = self.check(asked).err();
        if stale.is_none() {
            entry.crowd().stoppable.insert((self.token, self.number), work);
        }
        stale
    }
}
