use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::error::{NodeCause, ReleaseError, Released};
use crate::time::Time;
use crate::token::Token;

/// What an attempt that won hands to the lease.
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) deadline: Time,
    pub(crate) holder: Arc<dyn HeldLock>,
}

/// How a renewal ended.
#[derive(Debug)]
pub(crate) enum Renewed {
    /// The lease lasts until then.
    Until(Time),
    /// Somebody else has come.
    Superseded,
    /// Not this time.
    Failed(Vec<NodeCause>),
}

/// One held lock, as its lease sees it.
pub(crate) trait HeldLock: Send + Sync + 'static {
    /// Tries once to renew.
    fn renew(&self) -> BoxFuture<'_, Renewed>;
    /// Asks everywhere for the release at once, then tells what came of it.
    fn release(&self) -> BoxFuture<'_, Result<Released, ReleaseError>>;
    /// Renews no more, and asks everywhere for the release, without waiting. A lease that was
    /// `lost` stays as it is where there is a lock-delay: that is the time in which what its
    /// holder has sent may still arrive.
    fn abandon(&self, lost: bool);
}
