//! The metrics of processes.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use super::exposition::Process;
use super::sources::Source;
use super::told::Told;
use crate::say;

/// The longest page, in bytes.
const LONGEST: usize = 4 << 20;

/// One process.
pub(super) struct Metrics {
    place: usize,
    uri: Uri,
    budget: Duration,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Metrics {
    pub(super) fn new(place: usize, uri: Uri, budget: Duration) -> Metrics {
        let mut builder = Client::builder(TokioExecutor::new());
        // Each time a connection of its own: what answers is the process that listens now.
        let client = builder.pool_max_idle_per_host(0).build(HttpConnector::new());
        Metrics { place, uri, budget, client }
    }

    async fn get(&self) -> Result<Process, Box<dyn Error + Send + Sync>> {
        let answer = self.client.get(self.uri.clone()).await?;
        if answer.status() != StatusCode::OK {
            return Err(format!("it answered {}", answer.status()).into());
        }
        let page = Limited::new(answer.into_body(), LONGEST).collect().await?.to_bytes();
        Ok(Process::read(&String::from_utf8_lossy(&page)))
    }
}

impl Source for Metrics {
    async fn ask(&mut self) -> Told {
        let told = match timeout(self.budget, self.get()).await {
            Ok(Ok(process)) => Ok(process),
            Ok(Err(error)) => Err(say::chain(error.as_ref())),
            Err(_) => Err("timed out".to_owned()),
        };
        Told::Process(self.place, told)
    }
}

/// How a process is called.
pub(super) fn name(uri: &Uri) -> String {
    let host = uri.authority().map_or("", |authority| authority.as_str());
    match uri.path_and_query().map_or("/metrics", |path| path.as_str()) {
        "/metrics" => host.to_owned(),
        path => format!("{host}{path}"),
    }
}
