use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencing::lock::redlock::BuildError;
use tokio_util::sync::CancellationToken;

use crate::exit::{Failure, Status};
use crate::findings::{self, NodeBudget};
use crate::listen::{record_metrics, run_alone, status};
use crate::lock_service::Redis;

/// Exports the state of the nodes to Prometheus: GET /metrics asks each of them, and changes nothing there.
/// Leases, refusals and waiters are in the metrics of the processes that have them.
#[derive(Debug, clap::Args)]
pub(crate) struct ExporterArgs {
    #[command(flatten)]
    redis: Redis,
    /// Address for /metrics, /livez and /readyz. Port 0 takes a free one, and the first line of the output says which.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7435")]
    listen: SocketAddr,
    #[command(flatten)]
    budget: NodeBudget,
}

pub(crate) async fn main(args: ExporterArgs) -> Result<Status, Failure> {
    let recorder = record_metrics()?;
    // A list that no client could be built from is wrong usage; nodes that do not answer are what this is for.
    args.ask().await?;
    // The nodes may take all of their time.
    let asks = Some(2 * args.budget.within(Duration::MAX));
    let (address, args) = (args.listen, Arc::new(args));
    let ready = async move || {
        let has_quorum = args.ask().await.map_err(|error| error.to_string())?;
        has_quorum.then_some(()).ok_or_else(|| "no quorum".to_owned())
    };
    let status = status(recorder, ready, asks, CancellationToken::new());
    run_alone(address, status).await
}

impl ExporterArgs {
    /// Sets the gauges, and returns whether a majority can grant. What a node did not report is NaN, not zero.
    async fn ask(&self) -> Result<bool, BuildError> {
        let ExporterArgs { redis: redis @ Redis { namespace, .. }, budget, .. } = self;
        let findings = findings::ask(redis, budget.within(Duration::MAX)).await?;
        #[expect(clippy::cast_precision_loss, reason = "all are far below 2^53")]
        let float = |number: u64| number as f64;
        let fleet = |name: &'static str, count: usize| {
            metrics::gauge!(name, "namespace" => namespace.to_owned()).set(float(count as u64));
        };
        fleet("fencing_nodes", findings.nodes.len());
        fleet("fencing_nodes_needed", findings.needed());
        fleet("fencing_nodes_granting", findings.granting());
        for finding in &findings.nodes {
            let node = |name: &'static str, value: Option<f64>| {
                let labels = [("namespace", namespace.to_owned()), ("node", finding.node.clone())];
                metrics::gauge!(name, &labels).set(value.unwrap_or(f64::NAN));
            };
            let report = finding.report.as_ref();
            let quarantine = finding.quarantine().unwrap_or_default().as_secs_f64();
            node("fencing_node_reachable", Some(f64::from(report.is_some())));
            node("fencing_node_admitted", Some(f64::from(finding.is_admitted())));
            node("fencing_node_granting", Some(f64::from(finding.problem.is_none())));
            node("fencing_node_quarantine_seconds", report.map(|_| quarantine));
            node("fencing_node_era", report.and_then(|report| report.era).map(float));
            node("fencing_node_counts", report.map(|report| report.counts).map(float));
        }
        Ok(findings.granting() >= findings.needed())
    }
}
