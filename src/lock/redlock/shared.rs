use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencing_protocol::{ClientId, Fault, Fleet, Reply, Request};

use super::distinct_servers::DistinctServers;
use super::notices::{Notice, Notices};
use super::outstanding::Outstanding;
use crate::lock::wait::release_notifications::ReleaseNotifications;

/// What the lanes of one lock service share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) fleet: Fleet,
    pub(super) budget: Duration,
    pub(super) notices: Arc<Notices>,
    pub(super) distinct_servers: Arc<DistinctServers>,
    pub(super) outstanding: Outstanding,
    pub(super) client: ClientId,
    pub(super) notifications: ReleaseNotifications,
    /// Whether a node has shown this client a lock, its own or another's.
    pub(super) in_use: Arc<AtomicBool>,
}

impl Shared {
    /// Notes what else a node's answer says: that the node is to be brought back, that its counts are to be
    /// collected, that locks are in use, or whether the node has announced a release to another client.
    pub(super) fn note(&self, node: usize, request: &Request, answer: &Result<Reply, Fault>) {
        let Ok(reply) = answer else { return };
        if reply.is_not_admitted() {
            self.notices.send(Notice::NotAdmitted(node), self.outstanding.begin());
        } else if reply.is_full() {
            self.notices.send(Notice::Collect(node), self.outstanding.begin());
        }
        if reply.shows_use() {
            self.in_use.store(true, Ordering::Relaxed);
        }
        self.released(node, request, reply);
    }

    fn released(&self, node: usize, request: &Request, reply: &Reply) {
        for (request, reply) in request.parts().iter().zip(reply.parts()) {
            match (request, reply) {
                (Request::Release { resource, .. }, Reply::Passed { to }) => {
                    self.notifications.on_released(resource, node, *to != self.client);
                }
                (Request::Release { resource, .. }, Reply::Released) => {
                    self.notifications.on_released(resource, node, false);
                }
                _ => {}
            }
        }
    }
}
