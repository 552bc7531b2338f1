use std::fmt::Display;

use http::request::Parts;
use http::{HeaderName, Method};
use tower_layer::Layer;

use super::HEADER;
use super::service::FenceService;
use crate::fence::Fence;
use crate::resource::Resource;

/// Which requests need a token. Whichever sends one is fenced by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Require {
    /// All but the safe methods (RFC 9110): GET, HEAD, OPTIONS, TRACE.
    #[default]
    UnsafeMethods,
    /// All.
    Always,
}

impl Require {
    pub(super) fn of(self, method: &Method) -> bool {
        match self {
            Require::UnsafeMethods => !method.is_safe(),
            Require::Always => true,
        }
    }
}

/// Puts a [`Fence`] before a service; see the [module](super).
///
/// A read that carries a token seals as a write does: after it, no older token is let in.
#[derive(Debug, Clone)]
pub struct FenceLayer<X> {
    pub(super) fence: Fence,
    pub(super) extractor: X,
    pub(super) header: HeaderName,
    pub(super) require: Require,
    pub(super) hides_highest: bool,
}

impl<X> FenceLayer<X> {
    /// A layer that asks `fence`, for the resource that `extractor` finds in the request.
    /// The server names the resource, never a client's header.
    pub fn new<E>(fence: Fence, extractor: X) -> FenceLayer<X>
    where
        X: Fn(&Parts) -> Result<Resource, E> + Clone,
        E: Display,
    {
        FenceLayer {
            fence,
            extractor,
            header: HEADER,
            require: Require::default(),
            hides_highest: false,
        }
    }

    /// The header, or gRPC metadata, that carries the token. Default: `fencing-token`, as
    /// [`attach`](super::attach) sends it.
    #[must_use]
    pub fn header(self, header: HeaderName) -> FenceLayer<X> {
        FenceLayer { header, ..self }
    }

    /// Which requests need a token. Default: unsafe methods.
    #[must_use]
    pub fn require(self, require: Require) -> FenceLayer<X> {
        FenceLayer { require, ..self }
    }

    /// Does not tell a stale client the highest token seen.
    #[must_use]
    pub fn hide_highest(self) -> FenceLayer<X> {
        FenceLayer { hides_highest: true, ..self }
    }
}

impl<S, X: Clone> Layer<S> for FenceLayer<X> {
    type Service = FenceService<S, X>;

    fn layer(&self, inner: S) -> FenceService<S, X> {
        FenceService::new(inner, self.clone())
    }
}
