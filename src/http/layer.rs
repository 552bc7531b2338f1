use std::fmt::{self, Display};

use http::request::Parts;
use http::{HeaderName, Method};

use super::HEADER;
use crate::fence::Fence;
use crate::resource::Resource;

/// Which requests need a token. The fence checks every token that is sent, needed or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Require {
    /// All requests but reads, which have safe methods as IANA registers them: GET, HEAD, OPTIONS,
    /// TRACE, and PROPFIND, QUERY, REPORT and SEARCH.
    #[default]
    UnsafeMethods,
    /// All requests.
    Always,
}

impl Require {
    pub(super) fn applies_to(self, method: &Method) -> bool {
        match self {
            Require::UnsafeMethods => !is_read(method),
            Require::Always => true,
        }
    }
}

fn is_read(method: &Method) -> bool {
    method.is_safe() || matches!(method.as_str(), "PROPFIND" | "QUERY" | "REPORT" | "SEARCH")
}

/// Puts a [`Fence`] before a service; see the [module](super).
///
/// A read that carries a token raises the mark as a write does: after it, the fence refuses
/// older tokens, unless it is told to [ignore reads](FenceLayer::ignore_reads).
#[derive(Clone)]
pub struct FenceLayer<X> {
    pub(super) fence: Fence,
    pub(super) extractor: X,
    pub(super) header: HeaderName,
    pub(super) require: Require,
    pub(super) hides_highest: bool,
    pub(super) ignores_reads: bool,
}

impl<X> fmt::Debug for FenceLayer<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceLayer")
            .field("fence", &self.fence)
            .field("header", &self.header)
            .field("require", &self.require)
            .field("hides_highest", &self.hides_highest)
            .field("ignores_reads", &self.ignores_reads)
            .finish_non_exhaustive()
    }
}

impl<X> FenceLayer<X> {
    /// Makes a layer that asks `fence` about the resource that `extractor` finds in the
    /// request. An error of the extractor is a 400, and the client sees its text; only
    /// [`PathError::NoUri`](super::PathError::NoUri) and
    /// [`PathError::NoRoute`](super::PathError::NoRoute) are a 500. Let the server name the resource, never a
    /// client's header.
    pub fn new<E>(fence: Fence, extractor: X) -> FenceLayer<X>
    where
        X: Fn(&Parts) -> Result<Resource, E> + Clone,
        E: Display + 'static,
    {
        FenceLayer {
            fence,
            extractor,
            header: HEADER,
            require: Require::default(),
            hides_highest: false,
            ignores_reads: false,
        }
    }

    /// Sets the header, or gRPC metadata, that carries the token. Default: `fencing-token`,
    /// which [`attach`](super::attach()) sends.
    #[must_use]
    pub fn header(self, header: HeaderName) -> FenceLayer<X> {
        FenceLayer { header, ..self }
    }

    /// Sets which requests need a token. Default: those with unsafe methods.
    #[must_use]
    pub fn require(self, require: Require) -> FenceLayer<X> {
        FenceLayer { require, ..self }
    }

    /// Lets reads pass without a look at their tokens, even with [`Require::Always`]: those with a safe
    /// method. The handler gets no [`Fenced`](super::Fenced) of them.
    ///
    /// **Fencing.** Use it on routes where some users may read but not write: by default a read
    /// raises the mark, so that a reader with a forged token shuts out the writers. What it costs is
    /// the seal. An older holder may write between the read of a newer one and its write, so let the
    /// newer one read behind a route that seals, or in the transaction that writes.
    #[must_use]
    pub fn ignore_reads(self) -> FenceLayer<X> {
        FenceLayer { ignores_reads: true, ..self }
    }

    pub(super) fn ignores(&self, method: &Method) -> bool {
        self.ignores_reads && is_read(method)
    }

    /// Hides the highest token seen from clients whose token is stale, also where the handler's
    /// own check refuses.
    #[must_use]
    pub fn hide_highest(self) -> FenceLayer<X> {
        FenceLayer { hides_highest: true, ..self }
    }
}
