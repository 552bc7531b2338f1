use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

/// Keeps the transaction of one request while nobody works with it. `X` is the transaction.
struct Slot<X> {
    content: Arc<Mutex<Option<X>>>,
    /// The request is over. Nobody gets the transaction any more.
    closed: AtomicBool,
}

impl<X> Slot<X> {
    /// Lets nobody get the transaction any more, and takes it out. If somebody still works with it, its
    /// `Release` finds the slot closed, and drops the transaction.
    fn close(&self) -> Option<X> {
        self.closed.store(true, Ordering::SeqCst);
        // Pairs with the fence in `Release`: whichever of the two comes second sees the other's change.
        fence(Ordering::SeqCst);
        self.empty()
    }

    /// Takes the transaction out for good, if nobody works with it.
    fn empty(&self) -> Option<X> {
        self.content.try_lock().ok()?.take()
    }
}

/// A way to the transaction, for the request. It does not keep it open.
pub(super) struct Handle<X>(Arc<Slot<X>>);

impl<X> Clone for Handle<X> {
    fn clone(&self) -> Handle<X> {
        Handle(Arc::clone(&self.0))
    }
}

impl<X> Handle<X> {
    /// Gives the transaction to one user at a time, until the request is over.
    pub(super) fn take(&self) -> Option<Held<X>> {
        if self.0.closed.load(Ordering::SeqCst) {
            return None;
        }
        let content = Arc::clone(&self.0.content).try_lock_owned().ok()?;
        let transaction = OwnedMutexGuard::try_map(content, Option::as_mut).ok()?;
        Some(Held { transaction, _release: Release(self.clone()) })
    }
}

/// The transaction, while somebody works with it.
pub(super) struct Held<X> {
    // Dropped in this order.
    transaction: OwnedMappedMutexGuard<Option<X>, X>,
    _release: Release<X>,
}

impl<X> Deref for Held<X> {
    type Target = X;

    fn deref(&self) -> &X {
        &self.transaction
    }
}

impl<X> DerefMut for Held<X> {
    fn deref_mut(&mut self) -> &mut X {
        &mut self.transaction
    }
}

/// Drops a transaction that comes back when the request is over.
struct Release<X>(Handle<X>);

impl<X> Drop for Release<X> {
    fn drop(&mut self) {
        // The lock is free by now.
        fence(Ordering::SeqCst);
        if self.0.0.closed.load(Ordering::SeqCst) {
            drop(self.0.0.empty());
        }
    }
}

/// The layer's own handle. When it is dropped, the transaction ends, unless somebody still works with it.
pub(super) struct Owner<X>(Handle<X>);

impl<X> Owner<X> {
    pub(super) fn new(transaction: X) -> Owner<X> {
        let content = Arc::new(Mutex::new(Some(transaction)));
        Owner(Handle(Arc::new(Slot { content, closed: AtomicBool::new(false) })))
    }

    pub(super) fn handle(&self) -> Handle<X> {
        self.0.clone()
    }

    /// Takes the transaction back, unless somebody still works with it. In any case nobody gets it after
    /// that.
    pub(super) fn close(self) -> Option<X> {
        self.0.0.close()
    }
}

impl<X> Drop for Owner<X> {
    fn drop(&mut self) {
        drop(self.0.0.close());
    }
}

impl<X> fmt::Debug for Handle<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
