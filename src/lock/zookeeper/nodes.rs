use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Released};
use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use zookeeper_client::Error;

use super::change::{Found, NodeChange, PAUSE};
use super::fault;
use super::paths::LockNode;
use super::session::{Held, ZookeeperSession};
use crate::lock::sleep::sleep_until;
use crate::time::{Clock, Time};

impl ZookeeperSession {
    /// Deletes these nodes, or changes their contents. All requests are sent by the first poll, and sent again until the
    /// outcome is known or the session has ended.
    pub(super) async fn leave(self: Arc<Self>, nodes: Arc<[LockNode]>, change: NodeChange) -> Result<Released, Fault> {
        let left = join_all(nodes.iter().map(|node| self.leave_one(node, &change))).await;
        left.into_iter().try_fold(Released::Released, |all, one| match one {
            Ok(Released::Released) => Ok(all),
            Ok(Released::Lapsed) => Ok(Released::Lapsed),
            Err(error) => Err(fault::of(error)),
        })
    }

    /// Sends requests again and again until their outcome is known, or the session has ended.
    pub(super) async fn until_known<F: Future<Output = Result<(), Error>>>(&self, ask: impl Fn() -> F) {
        while !self.has_ended() && ask().await.is_err_and(|error| fault::is_in_doubt(&error)) {
            sleep(PAUSE).await;
        }
    }

    async fn leave_one(&self, node: &LockNode, change: &NodeChange) -> Result<Released, Error> {
        let mut doubt = false;
        if change.found == Found::Seen {
            match self.write(node, change.becomes.as_deref()).await {
                Ok(()) => return Ok(Released::Released),
                Err(Error::NoNode) => return Ok(Released::Lapsed),
                // Somebody is about to release by force.
                Err(Error::BadVersion) => {}
                Err(error) if fault::is_in_doubt(&error) => doubt = true,
                Err(error) if fault::is_over(&error) => return Ok(Released::Lapsed),
                Err(error) => return Err(error),
            }
        }
        match self.change(node, change).await {
            Ok(None) if !doubt => Ok(Released::Lapsed),
            Ok(_) => Ok(Released::Released),
            Err(error) if fault::is_over(&error) => Ok(Released::Lapsed),
            Err(error) => Err(error),
        }
    }

    /// Sends the write that leaves a node, at once.
    ///
    /// The node may be that of another client only where somebody has released this one by force. That has changed the
    /// folder, or removed the node of this session.
    fn write<'a>(
        &'a self,
        node: &LockNode,
        becomes: Option<&str>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<'a> {
        let mut write = self.client.new_multi_writer();
        let added = write.add_check_version(&self.node, -1).and_then(|()| {
            write.add_check_version(&node.folder, node.version)?;
            match becomes {
                Some(contents) => write.add_set_data(&node.path, contents.as_bytes(), None),
                None => write.add_delete(&node.path, None),
            }
        });
        let written = added.map(|()| write.commit());
        async move { written?.await.map(drop).map_err(|error| fault::of_write(error).1) }
    }
}

/// Removes the nodes of leases that have lapsed, and their lock-delay after it: the session lives on. They stay for
/// `timeout` after the last renewal.
pub(super) async fn sweep(
    session: Weak<ZookeeperSession>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    outstanding: TaskTracker,
) {
    let mut next = clock.now();
    loop {
        sleep_until(&*clock, next).await;
        let Some(session) = session.upgrade() else { return };
        let now = clock.now();
        // None that is granted or renewed from now on lapses before.
        next = now + timeout;
        let lapsed: Vec<_> = {
            let mut leases = session.leases.lock();
            next = leases.values().map(|held| held.since + timeout).filter(|end| *end > now).fold(next, Time::min);
            leases.extract_if(|_, held| held.since + timeout <= now).collect()
        };
        for (owner, Held { nodes, .. }) in lapsed {
            let change = NodeChange { begins: owner.to_string(), found: Found::Unmoved, becomes: None };
            drop(tokio::spawn(outstanding.track_future(Arc::clone(&session).leave(nodes, change))));
        }
    }
}
