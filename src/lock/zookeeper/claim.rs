use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Owner, Resource};
use zookeeper_client::{CreateMode, Error, MultiWriter, Stat};

use super::change::{Locate, NodeChange};
use super::contents::LockContents;
use super::fault;
use super::paths::{ALONE, LockNode, Paths, SHARED, WAITS};
use super::session::{Ensemble, ZookeeperSession};
use crate::holder::Holder;
use crate::lock::engine::FoundHolder;
use crate::lock::engine::token_base::token;
use crate::lock::error::Loss;
use crate::sequencer::Sequencer;

/// How often an attempt makes the folders of its locks: they are removed while they are empty.
const TRIES: usize = 5;

pub(super) struct ZookeeperClaim {
    pub(super) resources: NonEmpty<Resource>,
    pub(super) mode: Mode,
    pub(super) owner: Owner,
    /// For how long the locks stay closed unless they are renewed.
    pub(super) closed_for: Duration,
    /// See [`LockContents`].
    pub(super) contents: String,
}

#[derive(Debug)]
pub(super) enum ZookeeperRefusal {
    Held(FoundHolder),
    Fault(Fault),
}

impl From<Fault> for ZookeeperRefusal {
    fn from(fault: Fault) -> ZookeeperRefusal {
        ZookeeperRefusal::Fault(fault)
    }
}

pub(super) const CLOSED: &str = "an operator has raised the tokens; locks are granted again when earlier leases have \
                                 ended, within maxSessionTimeout (40s by default)";

/// Returns what tokens count from, unless somebody has removed or changed it.
pub(super) fn base_of(read: Result<(Vec<u8>, Stat), Error>) -> Result<Option<u64>, Error> {
    let base = fault::found(read)?.and_then(|(data, _)| String::from_utf8(data).ok());
    Ok(base.and_then(|base| base.trim().parse().ok()))
}

impl ZookeeperClaim {
    fn nodes(&self, paths: &Paths) -> Vec<LockNode> {
        let name = if let Mode::Exclusive = self.mode { ALONE.to_owned() } else { format!("{SHARED}{}", self.owner) };
        let folders = self.resources.iter().map(|resource| paths.lock(resource));
        folders.map(|folder| LockNode { path: format!("{folder}/{name}"), folder, czxid: 0, version: 0 }).collect()
    }
}

/// Why an attempt was not granted.
enum NotTaken {
    /// The folder of a lock is missing. Nothing was made.
    NoFolder,
    /// With how to find the nodes that may be there.
    Refused(ZookeeperRefusal, Option<Locate>),
}

impl From<Error> for NotTaken {
    fn from(error: Error) -> NotTaken {
        NotTaken::Refused(fault::of(error).into(), Some(Locate::Anywhere))
    }
}

impl ZookeeperSession {
    /// Acquires all of these or none. Without a grant, the nodes that may exist are removed before this returns, and
    /// before any later request of this session.
    pub(super) async fn take(
        self: Arc<Self>,
        claim: &ZookeeperClaim,
    ) -> Result<(Arc<[LockNode]>, NonEmpty<Sequencer>), ZookeeperRefusal> {
        let Ensemble { paths, .. } = &*self.ensemble;
        for _ in 0..TRIES {
            let mut nodes = claim.nodes(paths);
            match self.try_take(claim, &mut nodes).await {
                Ok(locks) => return Ok((nodes.into(), locks)),
                Err(NotTaken::NoFolder) => {
                    for LockNode { folder, .. } in &nodes {
                        self.ensemble.make(&self.client, folder, CreateMode::Container).await?;
                    }
                }
                Err(NotTaken::Refused(refusal, locate)) => {
                    if let Some(locate) = locate {
                        let change = NodeChange { begins: claim.owner.to_string(), locate, becomes: None };
                        let _ = Arc::clone(&self).leave(nodes.into(), change).await;
                    }
                    return Err(refusal);
                }
            }
        }
        let lock = paths.lock(claim.resources.first());
        Err(Fault::NotNow(format!("another client keeps removing {lock}: try again")).into())
    }

    /// Sends one write with all nodes, and behind it what is to be known of them: one round trip.
    async fn try_take(&self, claim: &ZookeeperClaim, nodes: &mut [LockNode]) -> Result<NonEmpty<Sequencer>, NotTaken> {
        let Ensemble { paths, largest, .. } = &*self.ensemble;
        let (client, before) = (&self.client, largest.get());
        let mut write = client.new_multi_writer();
        // An operator removes it.
        write.add_check_version(&self.node, -1)?;
        let about = self.add_creations(&mut write, claim, nodes)?;
        let written = write.commit();
        let look = |node: &LockNode| (client.get_data(&node.path), client.get_children(&node.folder));
        let looks: Vec<_> = nodes.iter().map(look).collect();
        // In this order: a reader of a raised base then also sees that locks are closed.
        let base = client.get_data(&paths.base());
        let closed = client.check_stat(&paths.closed());
        if let Err((index, error)) = written.await.map_err(fault::of_write) {
            let about = index.and_then(|index| about.get(index.checked_sub(1)?));
            let refusal = match (error, about) {
                (Error::NoNode, Some(_)) => return Err(NotTaken::NoFolder),
                (Error::NoNode, None) => {
                    self.end(Loss::Superseded);
                    fault::of(Error::SessionExpired).into()
                }
                (Error::NodeExists, Some((resource, path))) => self.held_at(path, claim, resource, false).await,
                (error, _) if fault::is_in_doubt(&error) => return Err(error.into()),
                (error, _) => fault::of(error).into(),
            };
            return Err(NotTaken::Refused(refusal, None));
        }
        let mut parts = Vec::new();
        for (node, (stat, children)) in nodes.iter_mut().zip(looks) {
            let stat = match stat.await {
                Ok((data, stat)) if data == claim.contents.as_bytes() => stat,
                // Somebody has removed it by force, and another client may have the lock since.
                Ok(_) | Err(Error::NoNode) => {
                    return Err(NotTaken::Refused(Fault::GrantedTooLate.into(), Some(Locate::Anywhere)));
                }
                Err(error) => return Err(error.into()),
            };
            let (children, folder) = children.await?;
            (node.czxid, node.version) = (stat.czxid, folder.version);
            parts.push(children.into_iter().find(|child| child.starts_with(SHARED)));
        }
        let base = base_of(base.await)?;
        let is_closed = closed.await?.is_some();
        let checked = async {
            if is_closed {
                return Err(ZookeeperRefusal::Fault(Fault::NotNow(CLOSED.into())));
            }
            let base = self.ensemble.check_base(base)?;
            let mut locks = Vec::new();
            for (resource, (node, part)) in claim.resources.iter().zip(nodes.iter().zip(parts)) {
                if let (Mode::Exclusive, Some(part)) = (claim.mode, part) {
                    return Err(self.held_at(&format!("{}/{part}", node.folder), claim, resource, true).await);
                }
                let token = token(base, node.czxid)?;
                largest.take(before, token.get())?;
                locks.push(Sequencer::new(resource.clone(), token));
            }
            NonEmpty::from_vec(locks).ok_or_else(|| Fault::InvalidReply("no node".into()).into())
        };
        // The nodes are as they were made.
        checked.await.map_err(|refusal| NotTaken::Refused(refusal, Some(Locate::AsCreated)))
    }

    /// Adds the creation of all nodes, and returns which lock and path each operation is about.
    fn add_creations<'a>(
        &self,
        write: &mut MultiWriter<'_>,
        claim: &'a ZookeeperClaim,
        nodes: &[LockNode],
    ) -> Result<Vec<(&'a Resource, String)>, Error> {
        let mut about = Vec::new();
        let ephemeral = CreateMode::Ephemeral.with_acls(self.ensemble.address.acls());
        for (resource, node) in claim.resources.iter().zip(nodes) {
            if claim.mode == Mode::Shared {
                // Creating these nodes proves that they did not exist.
                for path in [ALONE, WAITS].map(|name| format!("{}/{name}", node.folder)) {
                    write.add_create(&path, b"", &ephemeral)?;
                    write.add_delete(&path, None)?;
                    about.extend([(resource, path.clone()), (resource, path)]);
                }
            }
            write.add_create(&node.path, claim.contents.as_bytes(), &ephemeral)?;
            about.push((resource, node.path.clone()));
        }
        Ok(about)
    }

    /// Returns who holds a lock by this node.
    async fn held_at(&self, path: &str, claim: &ZookeeperClaim, resource: &Resource, shared: bool) -> ZookeeperRefusal {
        let contents = self.client.get_data(path).await.ok();
        let text = contents.and_then(|(contents, _)| String::from_utf8(contents).ok()).unwrap_or_default();
        let LockContents { signature, closed_for, .. } = LockContents::parse(&text);
        let (holder, left) = (Holder::read(signature), closed_for.unwrap_or(claim.closed_for));
        ZookeeperRefusal::Held(FoundHolder { resource: resource.clone(), holder, shared, left })
    }
}
