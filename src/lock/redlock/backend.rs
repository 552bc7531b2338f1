use std::sync::Arc;

use fencing_protocol::{
    CROWDED, Fault, NodeReport, NonEmpty, Reply, Request, Resource, fault_of, majority,
};

use super::attempt::attempt;
use super::nodes::Nodes;
use super::readmission;
use crate::lock::error::AcquireError;
use crate::lock::lease::held_lock::Grant;
use crate::lock::service::backend::{Ask, LockBackend};
use crate::lock::service::health::{Health, NodeHealth};
use crate::lock::settings::Settings;
use crate::lock::wait::backoff::Drains;
use crate::lock::wait::release_notifications::ReleaseNotifications;
use crate::time::Clock;

impl LockBackend for Arc<Nodes> {
    fn clock(&self) -> &Arc<dyn Clock> {
        Nodes::clock(self)
    }

    async fn attempt(
        &self,
        resources: &NonEmpty<Resource>,
        ask: Ask,
        settings: &Settings,
    ) -> Result<Grant, AcquireError> {
        // Until it asks again, and the request has got there.
        let drains = ask.waits.map(|end| Drains::new(settings, settings.budget() * 2, end));
        attempt(self, resources, (ask.mode, drains), settings.terms()).await
    }

    fn notifications(&self) -> &ReleaseNotifications {
        &self.context.notifications
    }

    async fn health(&self, _: &Settings) -> Health {
        readmission::start(self);
        let mut answers = self.submit_all(&Request::Inspect);
        let (mut reports, mut faults) = (Vec::new(), Vec::new());
        while let Some((node, answer)) = answers.next().await {
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
        reports.sort_by_key(|(node, _)| *node);
        faults.sort_by_key(|(node, _)| *node);
        let health = |(node, report): (usize, NodeReport)| NodeHealth {
            node: self.name(node).to_owned(),
            era: report.state.era,
            longest: report.state.longest,
            quarantine: report.quarantine,
            counts: report.counts,
            crowded: report.counts >= CROWDED as u64,
        };
        Health { nodes: reports.into_iter().map(health).collect(), ..self.health_with(faults) }
    }

    fn failing(&self, fault: Fault) -> Health {
        self.health_with(self.each(fault))
    }

    fn unavailable(&self, resource: &Resource, fault: Fault) -> AcquireError {
        self.no_quorum(resource, 0, self.each(fault))
    }

    fn prepare(&self, settings: &Settings) {
        self.raise_longest(settings.terms().closed_for());
    }

    async fn settle(&self) {
        self.context.outstanding.over().await;
    }
}

impl Nodes {
    pub(super) fn no_quorum(
        &self,
        resource: &Resource,
        granted: usize,
        faults: Vec<(usize, Fault)>,
    ) -> AcquireError {
        let (resource, nodes) = (resource.clone(), self.size());
        let (needed, causes) = (majority(nodes), self.causes(faults));
        AcquireError::NoQuorum { resource, nodes, needed, granted, causes }
    }

    fn each(&self, fault: Fault) -> Vec<(usize, Fault)> {
        (0..self.size()).map(|node| (node, fault.clone())).collect()
    }

    fn health_with(&self, faults: Vec<(usize, Fault)>) -> Health {
        Health {
            needed: majority(self.size()),
            granting: self.size() - faults.len(),
            causes: self.causes(faults),
            fleet: self.context.fleet.members().map(str::to_owned).collect(),
            nodes: Vec::new(),
        }
    }
}
