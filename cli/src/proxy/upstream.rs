use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connector::{Connector, Stream};

/// Time limit for a connection to the service. A request without one was not sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which an unused connection to the service is kept, for requests that the fence has not admitted.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(15);

/// The service behind the proxy.
#[derive(Clone)]
pub(super) struct Upstream {
    client: Client<Connector, Body>,
    /// For requests that the fence has admitted: it uses no connection twice. Where the service closes
    /// an unused connection just now, a request on it would be in doubt, and keep its resource closed.
    fresh: Client<Connector, Body>,
}

impl Upstream {
    pub(super) fn new(http2: bool) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let connector = Connector::new(connector, Stream::new);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.http2_only(http2).set_host(false);
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(UNUSED_TIMEOUT);
        let client = builder.build(connector.clone());
        // In HTTP/2 all requests share one, which does not end between them.
        let unused = if http2 { usize::MAX } else { 0 };
        let fresh = builder.pool_max_idle_per_host(unused).build(connector);
        Upstream { client, fresh }
    }

    pub(super) fn send(&self, request: Request<Body>, is_fenced: bool) -> ResponseFuture {
        let client = if is_fenced { &self.fresh } else { &self.client };
        client.request(request)
    }
}
