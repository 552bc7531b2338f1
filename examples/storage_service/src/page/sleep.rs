use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A sleep that stops a whole thread, as a garbage collector does.
#[derive(Clone, Default)]
pub struct Sleep(Arc<(Mutex<bool>, Condvar)>);

impl Sleep {
    /// Stops this thread until somebody wakes it.
    pub fn fall(&self) {
        let mut asleep = self.0.0.lock();
        *asleep = true;
        self.0.1.wait_while(&mut asleep, |asleep| *asleep);
    }

    /// Reports whether a thread was asleep.
    pub fn wake(&self) -> bool {
        let was = std::mem::replace(&mut *self.0.0.lock(), false);
        self.0.1.notify_all();
        was
    }

    pub fn is_deep(&self) -> bool {
        *self.0.0.lock()
    }
}
