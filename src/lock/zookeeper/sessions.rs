use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Owner};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use zookeeper_client::{Client, CreateMode, Error};

use super::change::sweep;
use super::fault;
use super::paths::Paths;
use super::session::{ZookeeperSession, renew_all};
use super::url::ZookeeperUrl;
use crate::lock::error::NodeCause;
use crate::lock::openings::Openings;
use crate::lock::sleep::restarted;
use crate::lock::token_base::{Largest, first_base};
use crate::random;
use crate::time::Clock;

/// The sessions of one lock service with an ensemble: one for each runtime, and each TTL with its lock-delay.
pub(super) struct ZookeeperSessions {
    pub(super) address: ZookeeperUrl,
    pub(super) paths: Paths,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) largest: Largest,
    pub(super) outstanding: TaskTracker,
    open: Openings<Duration, ZookeeperSession>,
}

impl ZookeeperSessions {
    pub(super) fn new(address: ZookeeperUrl, paths: Paths, clock: Arc<dyn Clock>) -> ZookeeperSessions {
        let (largest, outstanding) = (Largest::default(), TaskTracker::new());
        let open = Openings::new(ZookeeperSession::has_ended);
        ZookeeperSessions { address, paths, clock, largest, outstanding, open }
    }

    pub(super) fn cause(&self, cause: Fault) -> NodeCause {
        NodeCause { node: self.name(), cause }
    }

    pub(super) fn name(&self) -> String {
        format!("zookeeper://{}", self.address.servers)
    }

    /// Returns the session of this runtime for locks that stay `closed_for` this long.
    pub(super) async fn get(
        self: &Arc<Self>,
        closed_for: Duration,
        budget: Duration,
    ) -> Result<Arc<ZookeeperSession>, Fault> {
        let sessions = Arc::clone(self);
        let open = || async move { sessions.open(closed_for, budget).await };
        let session = self.open.get(closed_for, (closed_for, budget), open).await?;
        if session.late.is_empty() { Ok(session) } else { Err(Fault::TimedOut) }
    }

    pub(super) async fn connect(&self, timeout: Duration, budget: Duration) -> Result<Client, Fault> {
        // A lock is never freed because a client was dropped: the session is left to time out.
        let mut connector = Client::connector().with_fail_eagerly().with_detached();
        connector = connector.with_session_timeout(timeout).with_connection_timeout(budget * 2);
        if let Some(user) = &self.address.user {
            connector = connector.with_auth("digest", user.as_bytes());
        }
        let start = Instant::now();
        connector.connect(&self.address.servers).await.map_err(|error| match error {
            // The servers accept the connection and say nothing.
            _ if start.elapsed() >= budget => Fault::TimedOut,
            error => fault::of(error),
        })
    }

    /// Makes what all locks need, where it is missing.
    pub(super) async fn plant(&self, client: &Client) -> Result<(), Fault> {
        let persistent = CreateMode::Persistent.with_acls(self.address.acls());
        for path in self.paths.persistent() {
            let base = (path == self.paths.base()).then(|| first_base().to_string());
            match client.create(&path, base.unwrap_or_default().as_bytes(), &persistent).await {
                // A folder above may belong to somebody else.
                Ok(_) | Err(Error::NodeExists | Error::NoAuth) => {}
                Err(error) => return Err(fault::at(&path, error)),
            }
        }
        Ok(())
    }

    /// Makes a node, and what all need, where it is missing.
    pub(super) async fn make(&self, client: &Client, path: &str, mode: CreateMode) -> Result<(), Fault> {
        let options = mode.with_acls(self.address.acls());
        let mut made = client.create(path, b"", &options).await;
        if matches!(made, Err(Error::NoNode)) {
            self.plant(client).await?;
            made = client.create(path, b"", &options).await;
        }
        match made {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(fault::at(path, error)),
        }
    }

    async fn open(&self, closed_for: Duration, budget: Duration) -> Result<Arc<ZookeeperSession>, Fault> {
        // Servers count, in whole ms, from the last ping that the leader heard of, a lease from its renewal after that.
        let millis = (closed_for * 4 / 3).as_nanos().div_ceil(1_000_000);
        let timeout = Duration::from_millis(millis as u64);
        let client = self.connect(timeout, budget).await?;
        let granted = client.session_timeout();
        if granted < timeout {
            return Err(Fault::Denied(format!(
                "sessions last {granted:?} at most, but a TTL with lock-delay of {closed_for:?} needs {timeout:?}: \
                 raise maxSessionTimeout of the servers, or take a shorter TTL"
            )));
        }
        let owner = Owner(random::stamped());
        let node = self.paths.session(owner);
        self.make(&client, &node, CreateMode::Ephemeral).await?;
        let (renewals, due) = mpsc::unbounded_channel();
        let session = ZookeeperSession::new(client, (owner, node), self.address.acls(), renewals);
        let (lives, clock) = (Arc::downgrade(&session), Arc::clone(&self.clock));
        tokio::spawn(renew_all(Weak::clone(&lives), Arc::clone(&clock), due));
        let outstanding = self.outstanding.clone();
        tokio::spawn(restarted(move || {
            sweep(Weak::clone(&lives), Arc::clone(&clock), closed_for, outstanding.clone())
        }));
        Ok(session)
    }
}
