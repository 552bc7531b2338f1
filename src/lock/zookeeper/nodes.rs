use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Owner, Released};
use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use zookeeper_client::Error;

use super::fault;
use super::paths::Node;
use super::session::Session;
use crate::lock::sleep::sleep_until;
use crate::time::Clock;

/// The pause before a request is sent again whose answer was lost.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// How an owner leaves its nodes.
#[derive(Debug, Clone)]
pub(super) struct Leaving {
    pub(super) owner: Owner,
    /// They stay, and say this to others: for how long.
    pub(super) kept: Option<String>,
    /// Whether they were seen, and are not known to have been removed.
    pub(super) seen: bool,
}

impl Session {
    /// Leaves these nodes. All requests are sent by the first poll, and sent again until the outcome is known or the
    /// session has ended.
    pub(super) async fn leave(self: Arc<Self>, nodes: Arc<[Node]>, leaving: Leaving) -> Result<Released, Fault> {
        let left = join_all(nodes.iter().map(|node| self.leave_one(node, &leaving))).await;
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

    async fn leave_one(&self, node: &Node, leaving: &Leaving) -> Result<Released, Error> {
        let (mut first, mut doubt) = (leaving.seen, false);
        loop {
            let left = if std::mem::take(&mut first) {
                self.write(node, node.version, false, leaving).await
            } else {
                match self.folder_of_own(node, leaving.owner).await {
                    Ok(Some(version)) => self.write(node, version, true, leaving).await,
                    Ok(None) if doubt => return Ok(Released::Released),
                    Ok(None) => return Ok(Released::Lapsed),
                    Err(error) => Err(error),
                }
            };
            match left {
                Ok(()) => return Ok(Released::Released),
                Err(Error::NoNode) => return Ok(Released::Lapsed),
                // Somebody is about to release by force.
                Err(Error::BadVersion) => {}
                Err(error) if fault::is_in_doubt(&error) => doubt = true,
                Err(error) if fault::is_over(&error) => return Ok(Released::Lapsed),
                Err(error) => return Err(error),
            }
            if self.has_ended() {
                return Ok(Released::Lapsed);
            }
            if doubt {
                sleep(PAUSE).await;
            }
        }
    }

    /// Returns the version of the folder if the node is there and this owner's.
    async fn folder_of_own(&self, node: &Node, owner: Owner) -> Result<Option<i32>, Error> {
        // Behind a lost connection, the next server may not have what the last one wrote.
        let synced = self.client.sync(&node.folder);
        let folder = self.client.check_stat(&node.folder);
        let found = self.client.get_data(&node.path);
        synced.await?;
        match (folder.await?, found.await) {
            (Some(folder), Ok((data, _))) if data.starts_with(owner.to_string().as_bytes()) => Ok(Some(folder.version)),
            (_, Ok(_) | Err(Error::NoNode)) => Ok(None),
            (_, Err(error)) => Err(error),
        }
    }

    /// Sends the write that leaves a node, at once.
    ///
    /// The node may be that of another client only where somebody has released this one by force. That has changed the
    /// folder, or removed the node of this session. One who `marks` the folder is seen by whoever does so at this
    /// moment.
    fn write<'a>(
        &'a self,
        node: &Node,
        version: i32,
        marks: bool,
        leaving: &Leaving,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<'a> {
        let mut write = self.client.new_multi_writer();
        let added = write.add_check_version(&self.node, -1).and_then(|()| {
            if marks {
                write.add_set_data(&node.folder, b"", Some(version))?;
            } else {
                write.add_check_version(&node.folder, version)?;
            }
            match &leaving.kept {
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
pub(super) async fn sweep(session: Weak<Session>, clock: Arc<dyn Clock>, timeout: Duration, outstanding: TaskTracker) {
    let mut next = clock.now();
    loop {
        sleep_until(&*clock, next).await;
        let Some(session) = session.upgrade() else { return };
        let now = clock.now();
        // None that is granted or renewed from now on lapses before.
        next = now + timeout;
        let leases: Vec<_> = session.leases.lock().values().cloned().collect();
        for held in leases {
            let end = *held.since.lock() + timeout;
            if end > now {
                next = next.min(end);
            } else if session.forget(held.owner) {
                let leaving = Leaving { owner: held.owner, kept: None, seen: !held.is_lost.load(Ordering::Acquire) };
                let left = Arc::clone(&session).leave(Arc::clone(&held.nodes), leaving);
                drop(tokio::spawn(outstanding.track_future(left)));
            }
        }
    }
}
