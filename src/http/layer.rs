use std::fmt::Display;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;

use super::{HEADER, Policy, Resources};
use crate::fence::Fence;

type ChoosePolicy = Arc<dyn Fn(&Parts) -> Policy + Send + Sync>;

/// Puts a [`Fence`] before a service; see the [module](super).
///
/// A read with a token raises the mark as a write does: after it, the fence refuses older tokens,
/// unless its policy [ignores reads](Policy::ignoring_reads).
///
/// In axum, `route_layer` covers only the methods that the route has **before** it:
/// `put(write).route_layer(fence).delete(remove)` leaves `DELETE` open. Put it last. Make one [`Fence`] and clone it
/// for each route.
#[derive(Clone, derive_more::Debug)]
pub struct FenceLayer<X> {
    pub(super) fence: Fence,
    #[debug(skip)]
    pub(super) extractor: X,
    pub(super) header: HeaderName,
    #[debug(skip)]
    pub(super) policy: ChoosePolicy,
    pub(super) hides_highest: bool,
    pub(super) shadow: bool,
}

impl<X> FenceLayer<X> {
    /// Makes a layer that asks `fence` about the resource that `extractor` finds in the
    /// request. An error of the extractor is a 400, and the client sees its text; only
    /// [`PathError::NoRoute`](super::PathError::NoRoute) is a 500. Let the server name the resource, never a
    /// client's header.
    ///
    /// For a request about several resources the extractor returns a list of them ([`Resources`](super::Resources)). If
    /// the resource is named in the body or in a database, see [`NameLayer`](super::NameLayer).
    pub fn new<N, E>(fence: Fence, extractor: X) -> FenceLayer<X>
    where
        X: Fn(&Parts) -> Result<N, E> + Clone,
        N: Into<Resources>,
        E: Display + 'static,
    {
        FenceLayer {
            fence,
            extractor,
            header: HEADER,
            policy: Arc::new(Policy::for_writes),
            hides_highest: false,
            shadow: false,
        }
    }

    /// Sets the header, or gRPC metadata, that carries the token. Default: `fencing-token`,
    /// which [`attach`](super::attach()) sends.
    #[must_use]
    pub fn header(self, header: HeaderName) -> FenceLayer<X> {
        FenceLayer { header, ..self }
    }

    /// Asks this closure what each request needs. It sees the request without its body. Default:
    /// [`Policy::for_writes`].
    ///
    /// ```
    /// # use fencing::{Fence, fence::MemoryMarks, http::{self, FenceLayer, Policy}};
    /// # let fence = Fence::new(MemoryMarks::default());
    /// let layer = FenceLayer::new(fence, http::path).policy(|request| match request.uri.path() {
    ///     "/files/public" => Policy::Ignored,
    ///     _ if request.method.is_safe() => Policy::Optional,
    ///     _ => Policy::Required,
    /// });
    /// ```
    ///
    /// **Fencing.** Decide by the server's knowledge of the request, such as its method and route. A client that can
    /// choose the policy, for example by a header, can choose whether it is fenced.
    #[must_use]
    pub fn policy(self, policy: impl Fn(&Parts) -> Policy + Send + Sync + 'static) -> FenceLayer<X> {
        FenceLayer { policy: Arc::new(policy), ..self }
    }

    /// Admits every request, and reports what the fence would have refused. Use it to add the layer
    /// to a service before all its clients send tokens.
    ///
    /// A request that would have been refused counts in `fencing_admissions_total` with `layer="http"` and
    /// an outcome such as `shadow_stale` or `shadow_missing`, is logged at INFO, and its response has the
    /// header [`SHADOW`](super::SHADOW) with the status of the refusal. Marks are raised as without shadow
    /// mode, so that late clients show.
    ///
    /// Requests wait for the marks, up to the [limit](crate::fence::Fence::limit) of the fence, and never
    /// for each other: no older request is dropped. A request without a token reaches its
    /// handler without a [`Fenced`](super::Fenced): let the handler take an `Option<Fenced>` meanwhile.
    ///
    /// **Fencing.** None: stale writes pass. When these counters no longer grow, remove this call.
    #[must_use]
    pub fn shadow(self) -> FenceLayer<X> {
        FenceLayer { shadow: true, ..self }
    }

    /// Hides the highest token seen from clients whose token is stale, even if the handler's own check refuses.
    #[must_use]
    pub fn hide_highest(self) -> FenceLayer<X> {
        FenceLayer { hides_highest: true, ..self }
    }
}
