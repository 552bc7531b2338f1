use std::convert::Infallible;
use std::sync::Arc;

use fencing_protocol::{Fault, Owner, Resource};
use scopeguard::guard;
use tokio::time::sleep;
use zookeeper_client::{CreateMode, Error};

use super::change::PAUSE;
use super::fault;
use super::paths::{ALONE, SHARED};
use super::session::ZookeeperSession;
use crate::lock::engine::EngineSession;
use crate::lock::engine::line::PlaceReports;
use crate::random;

impl EngineSession for ZookeeperSession {
    fn has_ended(&self) -> bool {
        self.loss().is_some()
    }

    fn is_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// A place is a node with an owner of its own and a number.
    async fn keep_place(self: Arc<Self>, resource: Resource, reports: PlaceReports) -> Result<Infallible, Fault> {
        let owner = Owner(random::timestamped()).to_string();
        // Dropping this leaves the line, even if the answer to the creation was lost.
        let _place = guard(&self, |session| {
            session.runtime.spawn(Arc::clone(session).leave_line(resource.clone(), owner.clone()));
        });
        let kept = async {
            self.take_place(&resource, &owner).await?;
            reports.registered(false);
            self.follow_line(&resource, &owner, &reports).await.map_err(fault::of)
        };
        // The servers may not know it yet: a place would keep it alive, with its locks.
        let ended = async {
            while !self.has_ended() {
                sleep(PAUSE * 20).await;
            }
        };
        tokio::select! {
            kept = kept => kept,
            () = ended => Err(Fault::Disconnected("the session has ended".into())),
        }
    }
}

impl ZookeeperSession {
    /// Takes the last place.
    async fn take_place(&self, resource: &Resource, owner: &str) -> Result<(), Fault> {
        let (client, line) = (&self.client, self.ensemble.paths.line(resource));
        let path = format!("{line}/{owner}-");
        let place = CreateMode::EphemeralSequential.with_acls(self.ensemble.address.acls());
        let mut taken = client.create(&path, b"", &place).await;
        if matches!(taken, Err(Error::NoNode)) {
            self.ensemble.make(client, &line, CreateMode::Container).await?;
            taken = client.create(&path, b"", &place).await;
        }
        taken.map(drop).map_err(|error| fault::at(&path, error))
    }

    /// Watches the place ahead. When this one is the first, it watches the lock.
    async fn follow_line(&self, resource: &Resource, owner: &str, reports: &PlaceReports) -> Result<Infallible, Error> {
        let (client, paths) = (&self.client, &self.ensemble.paths);
        let (line, lock) = (paths.line(resource), paths.lock(resource));
        loop {
            if let Some(ahead) = place_ahead(client.list_children(&line).await?, owner)? {
                if let (Some(_), change) = client.check_and_watch_stat(&format!("{line}/{ahead}")).await? {
                    change.changed().await;
                }
                continue;
            }
            // The connected server may not have the last release yet.
            let (synced, looked) = (client.sync(&lock), client.list_and_watch_children(&lock));
            synced.await?;
            match looked.await {
                Ok((children, change)) => {
                    if !children.iter().any(|child| child == ALONE || child.starts_with(SHARED)) {
                        reports.released();
                    }
                    change.changed().await;
                }
                // It was removed because it was empty.
                Err(Error::NoNode) => {
                    reports.released();
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn leave_line(self: Arc<Self>, resource: Resource, owner: String) {
        let line = self.ensemble.paths.line(&resource);
        let leave = || async {
            let (synced, places) = (self.client.sync(&line), self.client.list_children(&line));
            synced.await?;
            match places.await?.iter().find(|it| it.starts_with(&owner)) {
                Some(place) => self.client.delete(&format!("{line}/{place}"), None).await,
                None => Ok(()),
            }
        };
        self.until_known(leave).await;
    }
}

/// Returns the place ahead of the owner's.
fn place_ahead(mut places: Vec<String>, owner: &str) -> Result<Option<String>, Error> {
    // Places are numbered as they are taken.
    let number = |place: &str| place.rsplit('-').next().and_then(|it| it.parse::<i64>().ok());
    places.sort_by_key(|place| number(place));
    let own = places.iter().position(|place| place.starts_with(owner));
    // An operator has removed it.
    Ok(own.ok_or(Error::NoNode)?.checked_sub(1).and_then(|ahead| places.get(ahead).cloned()))
}
