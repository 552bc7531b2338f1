use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Answer, Full, Handler, Recorder, answer};

/// How long the question whether the process is ready may take.
const LIMIT: Duration = Duration::from_secs(3);
const TEXT: &str = "text/plain; charset=utf-8";

/// Whether requests can be answered now, or why not.
pub(crate) type Ready = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The second port, for operators.
#[derive(Clone)]
pub(crate) struct Status {
    pub(crate) ready: Ready,
    pub(crate) recorder: Recorder,
    /// The page /openapi.yaml, for those that have a first port.
    pub(crate) openapi: Option<&'static str>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Status {
    async fn of(&self, method: &Method, path: &str) -> Answer {
        let openapi = self.openapi.filter(|_| path == "/openapi.yaml");
        if !matches!(path, "/livez" | "/readyz" | "/metrics") && openapi.is_none() {
            return answer(StatusCode::NOT_FOUND, TEXT, "no such page\n");
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET\n");
        }
        if let Some(openapi) = openapi {
            return answer(StatusCode::OK, "application/yaml", openapi);
        }
        match path {
            "/livez" => answer(StatusCode::OK, TEXT, "live\n"),
            "/metrics" => answer(StatusCode::OK, TEXT, self.recorder.render()),
            _ => match self.readiness().await {
                Ok(()) => answer(StatusCode::OK, TEXT, "ready\n"),
                Err(why) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
            },
        }
    }

    async fn readiness(&self) -> Result<(), String> {
        if *self.stopping.borrow() {
            return Err("stopping".into());
        }
        let late = |_| format!("no answer within {LIMIT:?}");
        timeout(LIMIT, (self.ready)()).await.map_err(late)?
    }
}

impl Handler for Status {
    type Body = Full;

    async fn handle(
        &self,
        request: Request<Incoming>,
        _: SocketAddr,
    ) -> Result<Response<Full>, Infallible> {
        Ok(self.of(request.method(), request.uri().path()).await)
    }
}
