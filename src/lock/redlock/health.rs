use std::sync::Arc;

use futures_util::StreamExt;

use super::nodes::Nodes;
use crate::lock::{Health, NodeHealth};
use crate::protocol::{CROWDED, Fault, Reply, Report, Request, fault_of, majority};

impl Nodes {
    pub(super) async fn health(self: &Arc<Nodes>) -> Health {
        self.start_readmission();
        let mut calls = self.submit_all(&Request::Inspect);
        let (mut reports, mut faults) = (Vec::new(), Vec::new());
        while let Some((node, answer)) = calls.next().await {
            match answer {
                Ok(Reply::Report(report)) => {
                    if let Some(left) = report.quarantine {
                        faults.push((node, Fault::Quarantined(left)));
                    }
                    reports.push((node, report));
                }
                other => faults.push((node, fault_of(other))),
            }
        }
        let granting = self.size() - faults.len();
        reports.sort_by_key(|(node, _)| *node);
        faults.sort_by_key(|(node, _)| *node);
        let stands = |(node, report): (usize, Report)| NodeHealth {
            node: self.name(node).to_owned(),
            era: report.state.era,
            longest: report.state.longest,
            quarantine: report.quarantine,
            counts: report.counts,
            crowded: report.counts >= CROWDED as u64,
        };
        Health {
            needed: majority(self.size()),
            granting,
            causes: self.causes(faults),
            fleet: self.fleet().members().map(str::to_owned).collect(),
            nodes: reports.into_iter().map(stands).collect(),
        }
    }
}
