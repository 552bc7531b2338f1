use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Owner, Released, Resource, Token};
use tokio::time::sleep;
use zookeeper_client::{CreateMode, Error};

use super::fault;
use super::paths::{ALONE, SHARED, WAITS};
use super::session::Session;
use super::sessions::Sessions;
use crate::lock::token_base::token;

/// How often an attempt makes the folders of its locks: they are removed while they are empty.
const TRIES: usize = 5;
/// The pause before a request is sent again whose answer was lost.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// What one attempt asks for.
pub(super) struct Claim {
    pub(super) resources: NonEmpty<Resource>,
    pub(super) mode: Mode,
    pub(super) owner: Owner,
    /// The owner and the name of the holder, and in another line for how long the lock is held: see [`contents`].
    pub(super) contents: String,
}

/// One lock that is held: a node of the session.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) resource: Resource,
    pub(super) folder: String,
    pub(super) path: String,
    pub(super) token: Token,
    pub(super) czxid: i64,
    /// The version of the folder, which a release by force changes.
    version: i32,
}

/// Why an attempt was not granted.
pub(super) enum Refusal {
    Held { resource: Resource, contents: Option<Vec<u8>>, shared: bool },
    Fault { resource: Resource, fault: Fault },
}

/// Returns what stands in the node of a lock: who holds it, for how many milliseconds unless it is renewed, and on which
/// session.
pub(super) fn contents(signature: &str, held_for: Duration, session: &Session) -> String {
    format!("{signature}\n{}\n{}", held_for.as_millis(), session.owner)
}

/// Reads what tokens count from, and whether locks may be closed since an operator has raised them.
pub(super) fn base_of(data: &[u8]) -> Option<(u64, bool)> {
    let mut lines = std::str::from_utf8(data).ok()?.lines();
    Some((lines.next()?.parse().ok()?, lines.next().is_some()))
}

impl Claim {
    fn node(&self) -> String {
        match self.mode {
            Mode::Exclusive => ALONE.to_owned(),
            Mode::Shared => format!("{SHARED}{}", self.owner),
        }
    }
}

/// What becomes of nodes that were asked for and not granted.
enum Outcome {
    Granted(NonEmpty<Node>),
    /// Not granted, and nothing was made.
    Refused(Refusal),
    /// Not granted, and nodes may be there.
    InDoubt(Refusal),
    /// A folder is missing.
    NoFolder(Resource),
}

impl Session {
    /// Acquires all of these or none. What it may have made without a grant is removed before it returns.
    pub(super) async fn take(
        self: &Arc<Self>,
        sessions: &Sessions,
        claim: &Claim,
    ) -> Result<NonEmpty<Node>, Refusal> {
        let mut missing = None;
        for _ in 0..TRIES {
            match self.ask_for(sessions, claim).await {
                Outcome::Granted(nodes) => return Ok(nodes),
                Outcome::Refused(refusal) => return Err(refusal),
                Outcome::InDoubt(refusal) => {
                    self.undo(sessions, claim).await;
                    return Err(refusal);
                }
                Outcome::NoFolder(resource) => {
                    self.make_folders(sessions, claim).await;
                    missing = Some(resource);
                }
            }
        }
        let resource = missing.unwrap_or_else(|| claim.resources.first().clone());
        let fault = Fault::Refused("the folder of the lock is removed again and again".into());
        Err(Refusal::Fault { resource, fault })
    }

    /// Sends one write with all nodes, and behind it what is to be known of them: one round trip.
    async fn ask_for(&self, sessions: &Sessions, claim: &Claim) -> Outcome {
        let client = &self.client;
        let (before, name) = (sessions.largest.get(), claim.node());
        let folders: Vec<String> =
            claim.resources.iter().map(|resource| sessions.paths.lock(resource)).collect();
        let refused = |resource: &Resource, error: &Error| Refusal::Fault {
            resource: resource.clone(),
            fault: fault::of(error),
        };
        let first = claim.resources.first();
        let (mut write, mut about) = (client.new_multi_writer(), Vec::new());
        // An operator removes it.
        if let Err(error) = write.add_check_version(&self.node, -1) {
            return Outcome::Refused(refused(first, &error));
        }
        for (resource, folder) in claim.resources.iter().zip(&folders) {
            let ephemeral = CreateMode::Ephemeral.with_acls(self.acls);
            let mut added = Ok(());
            if claim.mode == Mode::Shared {
                // That they can be made proves that they are not there.
                for other in [ALONE, WAITS] {
                    let path = format!("{folder}/{other}");
                    added = added.and_then(|()| write.add_create(&path, b"", &ephemeral));
                    added = added.and_then(|()| write.add_delete(&path, None));
                    about.extend([(resource, other); 2]);
                }
            }
            let path = format!("{folder}/{name}");
            added =
                added.and_then(|()| write.add_create(&path, claim.contents.as_bytes(), &ephemeral));
            about.push((resource, ALONE));
            if let Err(error) = added {
                return Outcome::Refused(refused(resource, &error));
            }
        }
        let written = write.commit();
        let looks: Vec<_> = folders
            .iter()
            .map(|folder| {
                (client.check_stat(&format!("{folder}/{name}")), client.get_children(folder))
            })
            .collect();
        let base = client.get_data(&sessions.paths.base());
        match written.await.map_err(fault::of_write) {
            Ok(_) => {}
            Err((index, error)) => {
                let made = index.and_then(|index| about.get(index.checked_sub(1)?));
                let (resource, other) = made.copied().unwrap_or((first, ALONE));
                return match error {
                    Error::NoNode if index == Some(0) => {
                        self.end();
                        Outcome::Refused(refused(first, &Error::SessionExpired))
                    }
                    Error::NoNode => Outcome::NoFolder(resource.clone()),
                    Error::NodeExists => {
                        let path = format!("{}/{other}", sessions.paths.lock(resource));
                        let contents = client.get_data(&path).await.ok().map(|(data, _)| data);
                        let resource = resource.clone();
                        Outcome::Refused(Refusal::Held { resource, contents, shared: false })
                    }
                    error if fault::is_in_doubt(&error) => {
                        Outcome::InDoubt(refused(resource, &error))
                    }
                    error => Outcome::Refused(refused(resource, &error)),
                };
            }
        }
        let mut nodes = Vec::new();
        let mut found = Vec::new();
        for look in looks {
            found.push((look.0.await, look.1.await));
        }
        let base = match base.await {
            Ok((data, stat)) => match base_of(&data) {
                Some((base, true)) => match self.is_closed(sessions, base, stat.version).await {
                    Ok(()) => Some(base),
                    Err(fault) => {
                        let resource = first.clone();
                        return Outcome::InDoubt(Refusal::Fault { resource, fault });
                    }
                },
                base => base.map(|(base, _)| base),
            },
            Err(Error::NoNode) => None,
            Err(error) => return Outcome::InDoubt(refused(first, &error)),
        };
        for ((resource, folder), found) in claim.resources.iter().zip(folders).zip(found) {
            let broken =
                |fault| Outcome::InDoubt(Refusal::Fault { resource: resource.clone(), fault });
            let (stat, children, parent) = match found {
                (Ok(Some(stat)), Ok((children, parent))) => (stat, children, parent),
                (Err(error), _) | (_, Err(error)) => return broken(fault::of(&error)),
                // Somebody has removed it by force.
                (Ok(None), _) => return broken(Fault::GrantedTooLate),
            };
            let part = children.iter().find(|child| child.starts_with(SHARED));
            if let (Mode::Exclusive, Some(part)) = (claim.mode, part) {
                let read = client.get_data(&format!("{folder}/{part}")).await;
                let contents = read.ok().map(|(data, _)| data);
                let resource = resource.clone();
                return Outcome::InDoubt(Refusal::Held { resource, contents, shared: true });
            }
            let Some(base) = base else {
                let path = sessions.paths.base();
                return broken(Fault::Refused(format!(
                    "{path} has no number to count tokens from: raise the tokens above those that were given out"
                )));
            };
            let count = u64::try_from(stat.czxid).unwrap_or(0);
            let granted = token(base, count)
                .and_then(|token| sessions.largest.take(before, token.get()).map(|()| token));
            let token = match granted {
                Ok(token) => token,
                Err(fault) => return broken(fault),
            };
            let (resource, path) = (resource.clone(), format!("{folder}/{name}"));
            let (czxid, version) = (stat.czxid, parent.version);
            nodes.push(Node { resource, folder, path, token, czxid, version });
        }
        let mut nodes = nodes.into_iter();
        match nodes.next() {
            Some(head) => Outcome::Granted(NonEmpty { head, tail: nodes.collect() }),
            None => Outcome::Refused(refused(first, &Error::NoNode)),
        }
    }

    /// Checks that the leases of the time before the tokens were raised are over.
    async fn is_closed(&self, sessions: &Sessions, base: u64, version: i32) -> Result<(), Fault> {
        match self.client.check_stat(&sessions.paths.child("closed")).await {
            Ok(None) => {
                let text = base.to_string();
                let _ = self.client.set_data(&sessions.paths.base(), text.as_bytes(), Some(version)).await;
                Ok(())
            }
            Ok(Some(_)) => Err(Fault::Refused(
                "an operator has raised the tokens; locks are granted when the leases of before have ended, within the \
                 longest timeout of the servers"
                    .into(),
            )),
            Err(error) => Err(fault::of(&error)),
        }
    }

    /// Makes what is missing above the nodes. Whether that works, the next attempt finds out.
    async fn make_folders(&self, sessions: &Sessions, claim: &Claim) {
        let persistent = CreateMode::Persistent.with_acls(self.acls);
        let container = CreateMode::Container.with_acls(self.acls);
        for resource in &claim.resources {
            let folder = sessions.paths.lock(resource);
            if self.client.create(&folder, b"", &container).await == Err(Error::NoNode) {
                for parent in sessions.paths.folders() {
                    let _ = self.client.create(&parent, b"", &persistent).await;
                }
                let _ = self.client.create(&folder, b"", &container).await;
            }
        }
    }

    /// Removes the nodes of an attempt which may be there, until that is known or the session has ended.
    ///
    /// Nothing else is granted on these before: the nodes are there, or this session's later requests come after.
    async fn undo(&self, sessions: &Sessions, claim: &Claim) {
        for resource in &claim.resources {
            let folder = sessions.paths.lock(resource);
            let path = format!("{folder}/{}", claim.node());
            let _ = self.remove_own(&folder, &path, &claim.owner.to_string()).await;
        }
    }

    /// Removes a node if it is there and this owner's, until that is known or the session has ended.
    async fn remove_own(&self, folder: &str, path: &str, owner: &str) -> Result<Released, Error> {
        loop {
            // Behind a lost connection, the next server may not have what the last one wrote.
            let synced = self.client.sync(folder);
            let (stat, found) = (self.client.check_stat(folder), self.client.get_data(path));
            let error = match (synced.await, stat.await, found.await) {
                (Ok(()), Ok(Some(stat)), Ok((data, _))) if data.starts_with(owner.as_bytes()) => {
                    // Whoever releases by force at this moment sees that the folder has changed.
                    let mut write = self.client.new_multi_writer();
                    write.add_set_data(folder, b"", Some(stat.version))?;
                    write.add_check_version(&self.node, -1)?;
                    write.add_delete(path, None)?;
                    match write.commit().await.map_err(|error| fault::of_write(error).1) {
                        Ok(_) => return Ok(Released::Released),
                        Err(error) => error,
                    }
                }
                (Ok(()), Ok(_), Ok(_) | Err(Error::NoNode)) => return Ok(Released::Lapsed),
                (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => error,
            };
            let again = fault::is_in_doubt(&error) || error == Error::BadVersion;
            if !again || self.has_ended() {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// Releases these. All requests are sent by the first poll, and sent again until the outcome is known or the session
    /// has ended.
    pub(super) async fn release(
        self: Arc<Self>,
        nodes: Arc<[Node]>,
        owner: String,
    ) -> Result<Released, Fault> {
        let _asked = self.ask();
        let remove = |node: &Node| self.remove(&node.folder, node.version, &node.path);
        let sent: Vec<_> = nodes.iter().map(remove).collect();
        let mut outcome = Ok(Released::Released);
        for (node, sent) in nodes.iter().zip(sent) {
            let removed = match sent.await {
                Ok(()) => continue,
                // The first request may have done it.
                Err(error) if fault::is_in_doubt(&error) => self
                    .remove_own(&node.folder, &node.path, &owner)
                    .await
                    .map(|_| Released::Released),
                // Somebody was about to release by force.
                Err(Error::BadVersion) => self.remove_own(&node.folder, &node.path, &owner).await,
                Err(error) => Err(error),
            };
            match removed {
                Ok(Released::Released) => {}
                Ok(Released::Lapsed) | Err(Error::NoNode) => {
                    outcome = outcome.and(Ok(Released::Lapsed))
                }
                Err(error) if fault::is_over(&error) => outcome = outcome.and(Ok(Released::Lapsed)),
                Err(error) => outcome = Err(fault::of(&error)),
            }
        }
        outcome
    }

    /// Keeps these for the rest of a minimum time: others read for how long.
    pub(super) async fn keep(
        self: Arc<Self>,
        nodes: Arc<[Node]>,
        signature: String,
        rest: Duration,
    ) -> Result<Released, Fault> {
        let _asked = self.ask();
        let contents = contents(&format!("{signature}."), rest, &self);
        let write = |node: &Node| self.client.set_data(&node.path, contents.as_bytes(), None);
        for sent in nodes.iter().map(write).collect::<Vec<_>>() {
            let _ = sent.await;
        }
        Ok(Released::Released)
    }

    /// Removes a node. The request is sent at once.
    ///
    /// It may be that of another client only where somebody has released it by force. That has changed the folder, or
    /// removed the node of this session.
    fn remove<'a>(
        &'a self,
        folder: &str,
        version: i32,
        path: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<'a> {
        let mut write = self.client.new_multi_writer();
        let added = write
            .add_check_version(&self.node, -1)
            .and_then(|()| write.add_check_version(folder, version))
            .and_then(|()| write.add_delete(path, None));
        let written = added.map(|()| write.commit());
        async move { written?.await.map(drop).map_err(|error| fault::of_write(error).1) }
    }
}
