use std::iter::once;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Owner};
use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use zookeeper_client::{CreateMode, Error, MultiWriteResult};

use super::contents::LockContents;
use super::fault;
use super::paths::{CHANGES, LockNode};
use super::session::{Held, ZookeeperSession};
use crate::lock::engine::EngineSession;
use crate::lock::error::Loss;
use crate::lock::runtime::sleep_until;
use crate::random;
use crate::time::{Clock, Time};

/// The pause before a request is sent again whose answer was lost.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// How the node of a lock is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locate {
    /// As this session has made it: nobody else is known to change it.
    AsCreated,
    /// Wherever it is: other sessions may have its ticket, or release it by force.
    Anywhere,
    /// Only where it is the very node that this session has made.
    SameNode,
}

/// A change of a lock's node.
#[derive(Debug, Clone)]
pub(super) struct NodeChange {
    /// Before the change, the contents begin with this text if the owner still has the lock.
    pub(super) begins: String,
    pub(super) locate: Locate,
    /// What the node says that replaces it, which is one of this session. `None`: the lock becomes free.
    pub(super) becomes: Option<String>,
}

impl ZookeeperSession {
    /// Deletes these nodes, or changes their contents. All requests are sent by the first poll, and sent again until the
    /// outcome is known or the session has ended. Returns whether all were held until then.
    pub(super) async fn leave(self: Arc<Self>, nodes: Arc<[LockNode]>, change: NodeChange) -> Result<bool, Fault> {
        let left = join_all(nodes.iter().map(|node| self.leave_one(node, &change))).await;
        left.into_iter().try_fold(true, |all, one| Ok(one.map_err(fault::of)? && all))
    }

    /// Sends requests again and again until their outcome is known, or the session has ended.
    pub(super) async fn until_known<F: Future<Output = Result<(), Error>>>(&self, ask: impl Fn() -> F) {
        let again = |error| fault::is_in_doubt(&error) || matches!(error, Error::Throttled);
        while !self.has_ended() && ask().await.is_err_and(again) {
            sleep(PAUSE).await;
        }
    }

    async fn leave_one(&self, node: &LockNode, change: &NodeChange) -> Result<bool, Error> {
        let mut doubt = false;
        if change.locate == Locate::AsCreated {
            match self.write(node, change.becomes.as_deref()).await {
                Ok(()) => return Ok(true),
                Err(Error::NoNode) => return Ok(false),
                // Somebody is about to release by force, or the server has not carried it out.
                Err(Error::BadVersion | Error::Throttled) => {}
                Err(error) if fault::is_in_doubt(&error) => doubt = true,
                Err(error) if fault::is_over(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        match self.change(node, change).await {
            Err(error) if fault::is_over(&error) => Ok(false),
            changed => Ok(changed?.is_some() || doubt),
        }
    }

    /// Sends the write that leaves a node, at once. The node may be that of another client only where somebody has
    /// released this one by force. That has changed the folder, or removed the node of this session.
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

    /// Makes a change of a node that others may change, and returns its zxid; `None` if the owner has lost the lock.
    /// The write takes effect only while the node is the one that was read. ZooKeeper cannot compare that, so three
    /// things prove it. The node's session has not ended, or the node would have ended with it. The folder has the
    /// version that was read, which every other change raises. And a node of this change is still in the folder: an
    /// empty folder is removed, and a new one begins with the first version.
    pub(super) async fn change(&self, node: &LockNode, change: &NodeChange) -> Result<Option<i64>, Error> {
        let own = format!("{}/{CHANGES}{}", node.folder, Owner(random::timestamped()));
        let mut doubt = false;
        let changed = loop {
            match self.try_change(node, change, &own).await {
                Ok(None) if doubt && change.becomes.is_none() => break Ok(Some(0)),
                Ok(Some(zxid)) => return Ok(Some(zxid)),
                // Another change came first.
                Err(Error::BadVersion) => {}
                Err(Error::Throttled) => sleep(PAUSE).await,
                Err(error) if fault::is_in_doubt(&error) => {
                    doubt = true;
                    sleep(PAUSE).await;
                }
                changed => break changed,
            }
            if self.has_ended() {
                break Err(Error::SessionExpired);
            }
        };
        self.until_known(|| self.client.delete(&own, None)).await;
        changed
    }

    async fn try_change(&self, node: &LockNode, change: &NodeChange, own: &str) -> Result<Option<i64>, Error> {
        let (client, ephemeral) = (&self.client, CreateMode::Ephemeral.with_acls(self.ensemble.address.acls()));
        // Behind a write, the connected server has what others had written before. The folder is read first.
        let (made, folder) = (client.create(own, b"", &ephemeral), client.check_stat(&node.folder));
        let found = client.get_data(&node.path);
        match made.await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(error),
        }
        let (folder, found) = (folder.await?, fault::found(found.await)?);
        let (Some(folder), Some((data, stat))) = (folder, found) else { return Ok(None) };
        let text = String::from_utf8_lossy(&data);
        let is_moved = change.locate == Locate::SameNode && stat.czxid != node.czxid;
        // An earlier try may have made the change.
        let mut begins = once(&change.begins).chain(&change.becomes);
        let is_own = begins.any(|begins| text.starts_with(begins)) && !is_moved;
        let found = LockContents::parse(&text);
        let (Some(session), true) = (found.session, is_own) else { return Ok(None) };
        let mut write = client.new_multi_writer();
        write.add_check_version(&self.node, -1)?;
        write.add_check_version(&format!("{}/{session}", self.ensemble.paths.child("s")), -1)?;
        write.add_delete(own, None)?;
        write.add_set_data(&node.folder, b"", Some(folder.version))?;
        write.add_delete(&node.path, None)?;
        if let Some(contents) = &change.becomes {
            let first = found.first.or(Some(stat.czxid));
            let moved = LockContents { first, ..LockContents::parse(contents) };
            write.add_create(&node.path, moved.to_string().as_bytes(), &ephemeral)?;
        }
        match write.commit().await.map_err(fault::of_write) {
            Ok(written) => {
                let zxid = written.iter().find_map(|one| match one {
                    MultiWriteResult::SetData { stat } => Some(stat.mzxid),
                    _ => None,
                });
                zxid.map(Some).ok_or_else(|| Error::UnexpectedError("a write without a zxid".into()))
            }
            // An operator has removed it.
            Err((Some(0), Error::NoNode)) => {
                self.end(Loss::Superseded);
                Err(Error::SessionExpired)
            }
            // The node goes with its session.
            Err((Some(1), Error::NoNode)) => Ok(None),
            Err((_, Error::NoNode)) => Err(Error::BadVersion),
            Err((_, error)) => Err(error),
        }
    }

    /// Removes the nodes of leases not renewed for `stay`, which is TTL and lock-delay: the session, with which
    /// they would end, lives on.
    pub(super) async fn sweep(session: Weak<Self>, clock: Arc<dyn Clock>, stay: Duration, tasks: TaskTracker) {
        let mut next = clock.now();
        loop {
            sleep_until(&*clock, next).await;
            let Some(session) = session.upgrade() else { return };
            let now = clock.now();
            // None that is granted or renewed from now on lapses before.
            next = now + stay;
            let lapsed: Vec<_> = {
                let mut leases = session.leases.lock();
                next = leases.values().map(|held| held.since + stay).filter(|end| *end > now).fold(next, Time::min);
                leases.extract_if(|_, held| held.since + stay <= now).collect()
            };
            for (owner, Held { nodes, .. }) in lapsed {
                let change = NodeChange { begins: owner.to_string(), locate: Locate::SameNode, becomes: None };
                drop(tokio::spawn(tasks.track_future(Arc::clone(&session).leave(nodes, change))));
            }
        }
    }
}
