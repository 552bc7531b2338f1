use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Owner, Resource};
use tokio::time::sleep;
use zookeeper_client::{CreateMode, Error};

use super::change::PAUSE;
use super::fault;
use super::paths::{ALONE, SHARED};
use super::session::ZookeeperSession;
use super::sessions::ZookeeperSessions;
use crate::lock::wait::line::{LineListener, PlaceReports, WaitingLine};
use crate::lock::wait::release_notifications::OpeningListener;
use crate::random;

/// Opens the lines of waiting clients, on a session of this client.
pub(super) fn open(sessions: &Arc<ZookeeperSessions>, timeout: Duration, budget: Duration) -> OpeningListener {
    let sessions = Arc::clone(sessions);
    LineListener::open(async move {
        let session = sessions.get(timeout, budget).await?;
        Ok(Arc::new(Line { sessions, session }))
    })
}

struct Line {
    sessions: Arc<ZookeeperSessions>,
    session: Arc<ZookeeperSession>,
}

impl WaitingLine for Line {
    async fn keep_place(self: Arc<Self>, resource: Resource, reports: PlaceReports) -> Result<Infallible, Fault> {
        let paths = &self.sessions.paths;
        let (line, lock) = (paths.line(&resource), paths.lock(&resource));
        let (sessions, session) = (Arc::clone(&self.sessions), Arc::clone(&self.session));
        let owner = Owner(random::stamped()).to_string();
        let place = ZookeeperPlace { sessions, session, line, lock, owner };
        // The servers may not know it yet: a place would keep it alive, with its locks.
        let ended = async {
            while !self.session.has_ended() {
                sleep(PAUSE * 20).await;
            }
        };
        tokio::select! {
            kept = place.keep(reports) => kept,
            () = ended => Err(Fault::Disconnected("the session has ended".into())),
        }
    }
}

/// A place in a line: a node with this owner and a number. Dropped, it is left.
struct ZookeeperPlace {
    sessions: Arc<ZookeeperSessions>,
    session: Arc<ZookeeperSession>,
    line: String,
    lock: String,
    owner: String,
}

impl ZookeeperPlace {
    async fn keep(&self, reports: PlaceReports) -> Result<Infallible, Fault> {
        self.take().await?;
        reports.registered(false);
        self.follow(&reports).await.map_err(fault::of)
    }

    /// Takes the last place.
    async fn take(&self) -> Result<(), Fault> {
        let (client, path) = (&self.session.client, format!("{}/{}-", self.line, self.owner));
        let place = CreateMode::EphemeralSequential.with_acls(self.session.acls);
        let mut taken = client.create(&path, b"", &place).await;
        if matches!(taken, Err(Error::NoNode)) {
            self.sessions.make(client, &self.line, CreateMode::Container).await?;
            taken = client.create(&path, b"", &place).await;
        }
        taken.map(drop).map_err(|error| fault::at(&path, error))
    }

    /// Watches the place ahead. When this one is the first, it watches the lock.
    async fn follow(&self, reports: &PlaceReports) -> Result<Infallible, Error> {
        let client = &self.session.client;
        loop {
            let ahead = match self.ahead().await? {
                Some(ahead) => client.check_and_watch_stat(&format!("{}/{ahead}", self.line)).await?,
                None => {
                    // The connected server may not have the last release yet.
                    let synced = client.sync(&self.lock);
                    let looked = client.list_and_watch_children(&self.lock);
                    synced.await?;
                    let (children, change) = match looked.await {
                        Ok(found) => found,
                        // It was removed because it was empty.
                        Err(Error::NoNode) => {
                            reports.released();
                            sleep(PAUSE).await;
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    if !children.iter().any(|child| child == ALONE || child.starts_with(SHARED)) {
                        reports.released();
                    }
                    change.changed().await;
                    continue;
                }
            };
            if let (Some(_), change) = ahead {
                change.changed().await;
            }
        }
    }

    async fn ahead(&self) -> Result<Option<String>, Error> {
        let mut places = self.session.client.list_children(&self.line).await?;
        // Places are numbered as they are taken.
        let number = |place: &str| place.rsplit('-').next().and_then(|it| it.parse::<i64>().ok());
        places.sort_by_key(|place| number(place));
        let own = places.iter().position(|place| place.starts_with(&self.owner));
        // An operator has removed it.
        Ok(own.ok_or(Error::NoNode)?.checked_sub(1).and_then(|ahead| places.get(ahead).cloned()))
    }
}

impl Drop for ZookeeperPlace {
    fn drop(&mut self) {
        let (session, line) = (Arc::clone(&self.session), self.line.clone());
        let owner = std::mem::take(&mut self.owner);
        // Also where the answer to its creation was lost.
        self.session.runtime.spawn(async move {
            let leave = || async {
                let (synced, places) = (session.client.sync(&line), session.client.list_children(&line));
                synced.await?;
                match places.await?.iter().find(|it| it.starts_with(&owner)) {
                    Some(place) => session.client.delete(&format!("{line}/{place}"), None).await,
                    None => Ok(()),
                }
            };
            session.until_known(leave).await;
        });
    }
}
