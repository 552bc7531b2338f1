use std::process::Stdio;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use support::cli::{Running, fencing};
use support::redis::RedisServer;

/// `fencing serve` as a process: `cargo build --release -p fencing-cli` makes it.
pub struct Service {
    pub process: Running,
    pub http: Http,
}

/// A client of the service that keeps its connections open.
#[derive(Clone)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

impl Service {
    pub fn start(servers: &Vec<RedisServer>, options: &str) -> Service {
        let ports = "--listen 127.0.0.1:0 --status 127.0.0.1:0";
        let mut command = fencing(servers, &format!("serve {ports} {options}"));
        // Leases that expire fill its log.
        command.stderr(Stdio::null());
        let mut process = Running::start(command);
        let base = process.until("requests on ");
        Service { process, http: Http::new(base) }
    }
}

impl Http {
    fn new(base: String) -> Http {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Http { client: Client::builder(TokioExecutor::new()).build(connector), base }
    }

    /// Returns a client of the same service with connections of its own.
    pub fn with_own_connections(&self) -> Http {
        Http::new(self.base.clone())
    }

    /// Returns the id of the lease.
    pub async fn acquire(&self, name: &str, wish: &'static str) -> Option<String> {
        let (_, text) = self.ask("POST", name, wish).await.filter(|(status, _)| *status == StatusCode::CREATED)?;
        let lease: serde_json::Value = serde_json::from_slice(&text).unwrap();
        Some(lease["lease_id"].as_str().unwrap().to_owned())
    }

    pub async fn renew(&self, id: &str) -> Option<StatusCode> {
        Some(self.ask("PUT", id, "").await?.0)
    }

    pub async fn release(&self, id: &str) -> Option<StatusCode> {
        Some(self.ask("DELETE", id, "").await?.0)
    }

    async fn ask(&self, method: &str, path: &str, body: &'static str) -> Option<(StatusCode, Bytes)> {
        let request = Request::builder().method(method).uri(format!("{}/leases/{path}", self.base));
        let request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
        let answer = self.client.request(request).await.ok()?;
        Some((answer.status(), answer.into_body().collect().await.ok()?.to_bytes()))
    }
}
