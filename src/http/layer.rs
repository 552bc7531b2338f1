use std::fmt::Display;
use std::sync::Arc;

use fencing_protocol::{NonEmpty, Resource};
use http::request::Parts;
use http::{HeaderName, Method};

use super::HEADER;
use crate::fence::Fence;

type ChoosePolicy = Arc<dyn Fn(&Parts) -> Policy + Send + Sync>;

/// Puts a [`Fence`] before a service; see the [module](super).
///
/// In axum, `route_layer` covers only the methods that the route has **before** it: put it last, as
/// `put(write).route_layer(fence).delete(remove)` leaves `DELETE` open. Make one [`Fence`], cloned for each route.
#[derive(Clone, derive_more::Debug)]
#[must_use]
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
    /// Makes a layer that asks `fence` about the resource that `extractor` finds in the request. An error of the
    /// extractor is a 400, and the client sees its text; only [`PathError::NoRoute`](super::PathError::NoRoute) is a
    /// 500. Let the server name the resource, never a client's header.
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

    /// Sets the header, or gRPC metadata, of the token. Default: `fencing-token`, as [`attach`](super::attach()) sends.
    pub fn header(self, header: HeaderName) -> FenceLayer<X> {
        FenceLayer { header, ..self }
    }

    /// Asks this closure, which does not see the body, what each request needs. Default: [`Policy::for_writes`].
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
    pub fn policy(self, policy: impl Fn(&Parts) -> Policy + Send + Sync + 'static) -> FenceLayer<X> {
        FenceLayer { policy: Arc::new(policy), ..self }
    }

    /// Admits every request, and reports what would have been refused. Use it until all clients send tokens.
    ///
    /// A request that would have been refused counts in `fencing_admissions_total` with `layer="http"` and an outcome
    /// such as `shadow_stale` or `shadow_missing`, is logged at INFO, and its response has the header
    /// [`SHADOW`](super::SHADOW) with the status of the refusal. Marks are raised, so that stale tokens show.
    ///
    /// Requests wait for the marks, up to the [limit](crate::fence::Fence::limit) of the fence, and never
    /// for each other: no older request is dropped. A request without a token reaches its
    /// handler without a [`Fenced`](super::Fenced): let the handler take an `Option<Fenced>` meanwhile.
    ///
    /// **Fencing.** None: stale writes pass. When these counters no longer grow, remove this call.
    pub fn shadow(self) -> FenceLayer<X> {
        FenceLayer { shadow: true, ..self }
    }

    /// Hides the highest token seen from clients whose token is stale, even if the handler's own check refuses.
    pub fn hide_highest(self) -> FenceLayer<X> {
        FenceLayer { hides_highest: true, ..self }
    }
}

/// The requirements of a [`FenceLayer`](super::FenceLayer) for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The request needs a token, and the fence checks it.
    Required,
    /// The fence checks the token, if any. Without one, the request passes without a [`Fenced`](super::Fenced).
    Optional,
    /// The request passes, and the fence ignores its token. The handler gets no [`Fenced`](super::Fenced).
    Ignored,
}

impl Policy {
    /// Requires a token of all requests but reads, which have safe methods as IANA registers them: GET, HEAD,
    /// OPTIONS, TRACE, and PROPFIND, QUERY, REPORT and SEARCH. The token of a read is checked.
    pub fn for_writes(request: &Parts) -> Policy {
        if is_read(&request.method) { Policy::Optional } else { Policy::Required }
    }

    /// Ignores the tokens of reads, and requires a token of all other requests.
    ///
    /// **Fencing.** Use it on routes where some users may read but not write: by default a read raises the mark, so
    /// that a reader with a forged token locks out the writers. You lose the seal: an older holder may write between a
    /// newer one's read and write, so let that one read behind a route that seals, or in the transaction that writes.
    pub fn ignoring_reads(request: &Parts) -> Policy {
        if is_read(&request.method) { Policy::Ignored } else { Policy::Required }
    }
}

fn is_read(method: &Method) -> bool {
    method.is_safe() || matches!(method.as_str(), "PROPFIND" | "QUERY" | "REPORT" | "SEARCH")
}

/// The resources that one request is about: what the closure of a [`FenceLayer`](super::FenceLayer) may
/// return, besides one [`Resource`]. A `Vec` of them is one.
///
/// With more than one, each needs its own token: the request carries a header [`SEQUENCER`](super::SEQUENCER) for each,
/// as [`attach_all`](super::attach_all()) puts them. All of them are admitted, or the request is refused. They are
/// admitted in the order of their names, so that two requests never wait for each other. The
/// [limit](crate::fence::Fence::limit) of the fence counts for each resource separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources(pub(super) Option<NonEmpty<Resource>>);

impl Resources {
    /// The most resources of a request.
    pub const MAX: usize = 128;
}

impl From<Resource> for Resources {
    fn from(resource: Resource) -> Resources {
        Resources(Some(NonEmpty::new(resource)))
    }
}

impl From<Vec<Resource>> for Resources {
    fn from(resources: Vec<Resource>) -> Resources {
        Resources(NonEmpty::from_vec(resources))
    }
}
