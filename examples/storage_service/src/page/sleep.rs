use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A sleep that stops a whole thread, as a garbage collector does.
#[derive(Clone, Default)]
pub struct Sleep(Arc<(Mutex<bool>, Condvar)>);

impl Sleep {
    /// Stops this thread until somebody wakes it.
    pub fn fall(&self) {
        let mut asleep = self.asleep();
        *asleep = true;
        while *asleep {
            asleep = self.0.1.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reports whether a thread was asleep.
    pub fn wake(&self) -> bool {
        let was = std::mem::replace(&mut *self.asleep(), false);
        self.0.1.notify_all();
        was
    }

    pub fn is_deep(&self) -> bool {
        *self.asleep()
    }

    fn asleep(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
