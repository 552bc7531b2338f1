use std::fmt;
use std::future::Future;

use fencing_protocol::{Resource, Token};

use super::Stale;
use super::counted::Counted;
use super::gate::Flight;

/// A request that the fence has admitted. While you hold it, the fence admits no newer token
/// of the resource. Drop it when the write is done.
#[must_use = "the request is in flight for as long as its admission is held"]
pub struct Admission {
    pub(super) flight: Flight,
    pub(super) drops_older: bool,
    _counted: Counted,
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
        Admission { flight, drops_older, _counted: Counted::new() }
    }

    /// Returns the resource that the request was admitted to.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.flight.resource()
    }

    /// Returns the token that was admitted.
    #[must_use]
    pub fn token(&self) -> Token {
        self.flight.token
    }

    /// Waits until this request must stop because a newer token came and its
    /// [grace](super::Fence::drop_older_after) is over. With a fence that
    /// [waits for older](super::Fence::wait_for_older) requests it waits forever. The newer
    /// request waits until this admission is dropped.
    ///
    /// # Cancel safety
    /// You may await any number of these futures, and drop them at any time.
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
