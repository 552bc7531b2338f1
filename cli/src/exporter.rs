//! `fencing exporter`: how the nodes stand, for Prometheus.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencing::lock::Fault;
use futures_util::FutureExt;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::{Mutex, watch};

use crate::args::Listen;
use crate::findings::{self, Findings};
use crate::listen::{self, Full, Handler, Ready, Status, record_metrics};
use crate::{args, exit, say};

/// Nodes are asked again after this time, however often somebody asks here.
const FRESH: Duration = Duration::from_secs(1);

/// Who asks the nodes. One at a time does.
struct Asked {
    args: args::Exporter,
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

/// Brings the gauges up to date before they are read.
#[derive(Clone)]
struct Exporter {
    asked: Arc<Asked>,
    status: Status,
}

/// Answers until a signal ends it, and returns the exit status.
pub(crate) async fn main(args: args::Exporter) -> u8 {
    match run(args).await {
        Ok(status) => status,
        Err((status, text)) => {
            say::error(say::without_passwords(&text));
            status
        }
    }
}

async fn run(args: args::Exporter) -> Result<u8, (u8, String)> {
    let failed = |text: String| (exit::FAILED, text);
    let wrong = |text: String| (exit::USAGE, text);
    let recorder = record_metrics().map_err(|error| failed(error.to_string()))?;
    let settings = Listen {
        listen: args.listen,
        status: args.listen,
        stop_within: Duration::from_secs(2),
        header_timeout: Duration::from_secs(10),
        client_timeout: Duration::from_secs(10),
        connections: 64,
    };
    let asked = Arc::new(Asked { args, last: Mutex::default() });
    // A list that no client could be built from is wrong usage; nodes that do not answer are what this is for.
    asked.ask().await.map_err(wrong)?;
    let again = Arc::clone(&asked);
    let ready: Ready = Arc::new(move || {
        let again = Arc::clone(&again);
        async move { again.refresh().await }.boxed()
    });
    let (_running, stopping) = watch::channel(false);
    let status = Status { ready, recorder, openapi: None, stopping };
    listen::run_alone(settings, Exporter { asked, status }).await.map_err(failed)
}

impl Asked {
    /// Asks the nodes, unless that was done a moment ago, and reports whether a majority can grant.
    async fn refresh(&self) -> Result<(), String> {
        let mut last = self.last.lock().await;
        match &*last {
            Some((when, found)) if when.elapsed() < FRESH => found.clone(),
            _ => {
                let found = self.ask().await;
                let found = found
                    .and_then(|quorum| quorum.then_some(()).ok_or_else(|| "no quorum".to_owned()));
                *last = Some((Instant::now(), found.clone()));
                found
            }
        }
    }

    /// Asks the nodes, sets the gauges, and returns whether a majority can grant.
    async fn ask(&self) -> Result<bool, String> {
        let args::Exporter { redis, node_budget, .. } = &self.args;
        let asked = findings::ask(redis.urls(), &redis.namespace, *node_budget);
        let findings = asked.await.map_err(|error| error.to_string())?;
        set(&findings, &redis.namespace);
        Ok(findings.has_quorum())
    }
}

/// Sets the gauges. A figure that a node did not tell is not a number: no alert takes it for zero.
fn set(findings: &Findings, namespace: &str) {
    let number = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    let one_if = |holds: bool| if holds { 1.0 } else { 0.0 };
    let fleet = |name: &'static str, value: f64| {
        metrics::gauge!(name, "namespace" => namespace.to_owned()).set(value);
    };
    fleet("fencing_nodes", number(findings.nodes.len()));
    fleet("fencing_nodes_needed", number(findings.needed()));
    fleet("fencing_nodes_granting", number(findings.granting()));
    for finding in &findings.nodes {
        let node = |name: &'static str, value: f64| {
            let labels = [("namespace", namespace.to_owned()), ("node", finding.node.clone())];
            metrics::gauge!(name, &labels).set(value);
        };
        let report = finding.report.as_ref().ok();
        let told = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let quarantine = match finding.problem {
            Some(Fault::Quarantined(left)) => left.as_secs_f64(),
            _ => 0.0,
        };
        node("fencing_node_reachable", one_if(report.is_some()));
        node("fencing_node_admitted", one_if(finding.is_admitted()));
        node("fencing_node_granting", one_if(finding.problem.is_none()));
        node("fencing_node_quarantine_seconds", told(report.map(|_| quarantine)));
        #[expect(clippy::cast_precision_loss, reason = "both are far below 2^53")]
        let (era, counts) = (
            report.and_then(|report| report.era).map(|era| era as f64),
            report.map(|report| report.counts as f64),
        );
        node("fencing_node_era", told(era));
        node("fencing_node_counts", told(counts));
    }
}

impl Handler for Exporter {
    type Body = Full;

    async fn handle(
        &self,
        request: Request<Incoming>,
        from: SocketAddr,
    ) -> Result<Response<Full>, Infallible> {
        if request.uri().path() == "/metrics" {
            // What it found is in the gauges.
            let _ = self.asked.refresh().await;
        }
        self.status.handle(request, from).await
    }
}
