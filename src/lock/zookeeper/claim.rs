use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Owner, Resource};
use zookeeper_client::{CreateMode, Error, Stat};

use super::change::{Found, NodeChange};
use super::fault;
use super::paths::{ALONE, LockNode, Paths, SHARED, WAITS};
use super::session::{Ensemble, ZookeeperSession};
use crate::lock::error::Loss;
use crate::lock::token_base::token;
use crate::sequencer::Sequencer;

/// How often an attempt makes the folders of its locks: they are removed while they are empty.
const TRIES: usize = 5;

pub(super) struct ZookeeperClaim {
    pub(super) resources: NonEmpty<Resource>,
    pub(super) mode: Mode,
    pub(super) owner: Owner,
    /// See [`contents`].
    pub(super) contents: String,
}

#[derive(Debug)]
pub(super) enum ZookeeperRefusal {
    Held { resource: Resource, contents: Option<Vec<u8>>, shared: bool },
    Fault(Fault),
}

impl From<Fault> for ZookeeperRefusal {
    fn from(fault: Fault) -> ZookeeperRefusal {
        ZookeeperRefusal::Fault(fault)
    }
}

pub(super) const CLOSED: &str = "an operator has raised the tokens; locks are granted again when earlier leases have \
                                 ended, within maxSessionTimeout (40s by default)";

/// Returns the contents of a lock's node: the holder, for how many milliseconds unless it is renewed, and on which
/// session. One that was moved has the zxid that its token counts from behind them.
pub(super) fn contents(signature: &str, held_for: Duration, session: &ZookeeperSession) -> String {
    format!("{signature}\n{}\n{}", held_for.as_millis(), session.owner)
}

/// Returns what tokens count from, unless somebody has removed or changed it.
pub(super) fn base_of(read: Result<(Vec<u8>, Stat), Error>) -> Result<Option<u64>, Error> {
    match read {
        Err(Error::NoNode) => Ok(None),
        read => Ok(std::str::from_utf8(&read?.0).ok().and_then(|text| text.trim().parse().ok())),
    }
}

impl ZookeeperClaim {
    fn nodes(&self, paths: &Paths) -> Vec<LockNode> {
        let name = if let Mode::Exclusive = self.mode { ALONE.to_owned() } else { format!("{SHARED}{}", self.owner) };
        let folders = self.resources.iter().map(|resource| paths.lock(resource));
        folders.map(|folder| LockNode { path: format!("{folder}/{name}"), folder, czxid: 0, version: 0 }).collect()
    }
}

/// The nodes of an attempt, and what was read behind them.
struct Created {
    nodes: Vec<LockNode>,
    /// Somebody's part of each lock.
    parts: Vec<Option<String>>,
    base: Option<u64>,
    /// The tokens were raised, and leases of before may not be over.
    is_closed: bool,
    /// The largest token before.
    before: u64,
}

enum NotCreated {
    NoFolder,
    /// Nothing was made.
    Refused(ZookeeperRefusal),
    /// Nodes may be there.
    InDoubt(Fault),
}

impl From<Error> for NotCreated {
    fn from(error: Error) -> NotCreated {
        NotCreated::InDoubt(fault::of(error))
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
            let (nodes, found, refusal) = match self.create_nodes(claim).await {
                Ok(created) => match self.check_created(claim, &created).await {
                    Ok(locks) => return Ok((created.nodes.into(), locks)),
                    Err(refusal) => (created.nodes, Found::Seen, refusal),
                },
                Err(NotCreated::InDoubt(fault)) => {
                    (claim.nodes(paths), Found::Anywhere, ZookeeperRefusal::Fault(fault))
                }
                Err(NotCreated::Refused(refusal)) => return Err(refusal),
                Err(NotCreated::NoFolder) => {
                    for resource in &claim.resources {
                        self.ensemble.make(&self.client, &paths.lock(resource), CreateMode::Container).await?;
                    }
                    continue;
                }
            };
            let change = NodeChange { begins: claim.owner.to_string(), found, becomes: None };
            let _ = Arc::clone(&self).leave(nodes.into(), change).await;
            return Err(refusal);
        }
        let lock = paths.lock(claim.resources.first());
        Err(ZookeeperRefusal::Fault(Fault::NotNow(format!("another client keeps removing {lock}: try again"))))
    }

    /// Sends one write with all nodes, and behind it what is to be known of them: one round trip.
    async fn create_nodes(&self, claim: &ZookeeperClaim) -> Result<Created, NotCreated> {
        let Ensemble { address, paths, largest, .. } = &*self.ensemble;
        let (client, before) = (&self.client, largest.get());
        let mut nodes = claim.nodes(paths);
        let mut write = client.new_multi_writer();
        // An operator removes it.
        write.add_check_version(&self.node, -1)?;
        let mut about = Vec::new();
        let ephemeral = CreateMode::Ephemeral.with_acls(address.acls());
        for (resource, node) in claim.resources.iter().zip(&nodes) {
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
        let written = write.commit();
        let look = |node: &LockNode| (client.get_data(&node.path), client.get_children(&node.folder));
        let looks: Vec<_> = nodes.iter().map(look).collect();
        // In this order: a reader of a raised base then also sees that locks are closed.
        let base = client.get_data(&paths.base());
        let closed = client.check_stat(&paths.closed());
        if let Err((index, error)) = written.await.map_err(fault::of_write) {
            let about = index.and_then(|index| about.get(index.checked_sub(1)?));
            return Err(match (error, about) {
                (Error::NoNode, Some(_)) => NotCreated::NoFolder,
                (Error::NoNode, None) => {
                    self.end(Loss::Superseded);
                    NotCreated::Refused(ZookeeperRefusal::Fault(fault::of(Error::SessionExpired)))
                }
                (Error::NodeExists, Some((resource, path))) => {
                    let contents = self.read(path).await;
                    let resource = (*resource).clone();
                    NotCreated::Refused(ZookeeperRefusal::Held { resource, contents, shared: false })
                }
                (error, _) if fault::is_in_doubt(&error) => error.into(),
                (error, _) => NotCreated::Refused(ZookeeperRefusal::Fault(fault::of(error))),
            });
        }
        let mut parts = Vec::new();
        for (node, (stat, children)) in nodes.iter_mut().zip(looks) {
            let stat = match stat.await {
                Ok((data, stat)) if data == claim.contents.as_bytes() => stat,
                // Somebody has removed it by force, and another client may have the lock since.
                Ok(_) | Err(Error::NoNode) => return Err(NotCreated::InDoubt(Fault::GrantedTooLate)),
                Err(error) => return Err(error.into()),
            };
            let (children, folder) = children.await?;
            (node.czxid, node.version) = (stat.czxid, folder.version);
            parts.push(children.into_iter().find(|child| child.starts_with(SHARED)));
        }
        let base = base_of(base.await)?;
        Ok(Created { nodes, parts, base, is_closed: closed.await?.is_some(), before })
    }

    /// Returns the tokens, unless there is a reason to remove the nodes again.
    async fn check_created(
        &self,
        claim: &ZookeeperClaim,
        created: &Created,
    ) -> Result<NonEmpty<Sequencer>, ZookeeperRefusal> {
        if created.is_closed {
            return Err(ZookeeperRefusal::Fault(Fault::NotNow(CLOSED.into())));
        }
        let base = self.ensemble.check_base(created.base)?;
        let mut locks = Vec::new();
        let found = created.nodes.iter().zip(&created.parts);
        for (resource, (node, part)) in claim.resources.iter().zip(found) {
            if let (Mode::Exclusive, Some(part)) = (claim.mode, part) {
                let contents = self.read(&format!("{}/{part}", node.folder)).await;
                return Err(ZookeeperRefusal::Held { resource: resource.clone(), contents, shared: true });
            }
            let token = token(base, node.czxid)?;
            self.ensemble.largest.take(created.before, token.get())?;
            locks.push(Sequencer::new(resource.clone(), token));
        }
        NonEmpty::from_vec(locks).ok_or_else(|| ZookeeperRefusal::Fault(Fault::InvalidReply("no node".into())))
    }

    async fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.client.get_data(path).await.ok().map(|(data, _)| data)
    }
}
