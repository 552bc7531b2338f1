use std::future::{Future, pending};

use fencing_protocol::{Resource, Token};
use futures_util::future::Either;

use super::Stale;
use super::gate::RequestInFlight;

/// A request that the fence has admitted. While you hold it, the fence admits no newer token
/// of the resource. Drop it when the write is done.
#[derive(derive_more::Debug)]
#[debug("Admission {{ resource: {:?}, token: {:?} }}", request.resource, request.token)]
#[must_use = "the request is in flight for as long as its admission is held"]
pub struct Admission {
    pub(super) request: RequestInFlight,
    pub(super) drops_older: bool,
}

impl Admission {
    pub(super) fn new(request: RequestInFlight, drops_older: bool) -> Admission {
        metrics::gauge!("fencing_in_flight").increment(1.0);
        Admission { request, drops_older }
    }

    /// Returns the resource that the request was admitted to.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.request.resource
    }

    /// Returns the token that was admitted.
    #[must_use]
    pub fn token(&self) -> Token {
        self.request.token
    }

    /// Waits until this request must stop because a newer token arrived and its
    /// [grace](super::Fence::drop_older_after) has ended. With a fence that has no grace it waits
    /// forever. The newer request waits until this admission is dropped.
    ///
    /// # Cancel safety
    /// You may await any number of these futures, and drop them at any time.
    pub fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        match self.drops_older {
            true => Either::Left(self.request.newer(|tokens| tokens.stop)),
            false => Either::Right(pending()),
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        metrics::gauge!("fencing_in_flight").decrement(1.0);
    }
}
