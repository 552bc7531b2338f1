use std::sync::Arc;

use futures_util::StreamExt;

use super::fleet::Fleet;
use crate::lock::Health;
use crate::quorum::{Fault, Reply, Request, majority};

impl Fleet {
    pub(super) async fn health(self: &Arc<Fleet>) -> Health {
        self.start_steward();
        let mut calls = self.submit_all(&Request::Read);
        let mut faults = Vec::new();
        while let Some((node, answer)) = calls.next().await {
            match answer {
                Ok(Reply::State(_)) => {}
                Ok(Reply::NotAdmitted) => faults.push((node, Fault::NotAdmitted)),
                Ok(_) => faults.push((node, Fault::Nonsense("no state".into()))),
                Err(fault) => faults.push((node, fault)),
            }
        }
        let admitted = self.size() - faults.len();
        Health { needed: majority(self.size()), admitted, causes: self.causes(faults) }
    }
}
