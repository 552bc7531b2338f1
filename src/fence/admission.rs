use std::fmt;
use std::future::Future;

use super::Stale;
use super::gate::Flight;
use crate::resource::Resource;
use crate::token::Token;

/// A request that was let in. While it is held, no newer token is admitted; drop it when
/// the write is done.
#[must_use = "the request is in flight for as long as its admission is held"]
pub struct Admission {
    flight: Flight,
    drops_older: bool,
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("resource", self.resource())
            .field("token", &self.token())
            .finish()
    }
}

impl Admission {
    pub(super) fn new(flight: Flight, drops_older: bool) -> Admission {
        Admission { flight, drops_older }
    }

    /// What was let in to.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.flight.resource
    }

    /// The token that was let in.
    #[must_use]
    pub fn token(&self) -> Token {
        self.flight.token
    }

    /// Resolves when this request has to stop because a newer token came, which only a
    /// fence that [drops older](super::Fence::drop_older) requests asks for. The newer one
    /// waits until this admission is dropped.
    ///
    /// # Cancel safety
    /// Any number of these may be awaited, and dropped.
    pub fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        let superseded = self.drops_older.then(|| self.flight.superseded());
        async move {
            match superseded {
                Some(superseded) => superseded.await,
                None => std::future::pending().await,
            }
        }
    }
}
