use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Owner};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;
use zookeeper_client::{Client, CreateMode, Error};

use super::fault;
use super::paths::Paths;
use super::session::Session;
use super::url::Address;
use crate::lock::error::NodeCause;
use crate::lock::token_base::{Largest, first_base};
use crate::random;
use crate::time::Clock;

/// The sessions of one lock service with an ensemble: one for each runtime and each timeout.
pub(super) struct Sessions {
    pub(super) address: Address,
    pub(super) paths: Paths,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) largest: Largest,
    /// The work of this client that is not done. It is closed.
    pub(super) outstanding: TaskTracker,
    slots: Mutex<HashMap<(Id, Duration), Slot>>,
}

type Opening = Shared<BoxFuture<'static, Result<Arc<Session>, Fault>>>;

/// A session that is open, or is being opened.
#[derive(Clone)]
struct Slot {
    opening: Opening,
    /// Since when nothing has been heard of the servers.
    since: Instant,
}

impl Sessions {
    pub(super) fn new(address: Address, paths: Paths, clock: Arc<dyn Clock>) -> Sessions {
        let outstanding = TaskTracker::new();
        outstanding.close();
        let (largest, slots) = Default::default();
        Sessions { address, paths, clock, largest, outstanding, slots }
    }

    pub(super) fn cause(&self, cause: Fault) -> NodeCause {
        NodeCause { node: self.name(), cause }
    }

    /// Returns the name of the ensemble.
    pub(super) fn name(&self) -> String {
        format!("zookeeper://{}", self.address.servers)
    }

    /// Returns the session of this runtime that outlives its client by `timeout`. A session that has ended is replaced.
    /// Callers share the wait for it: servers that are down or hang do not cost each of them its budget.
    pub(super) async fn get(
        self: &Arc<Self>,
        timeout: Duration,
        budget: Duration,
    ) -> Result<Arc<Session>, Fault> {
        let Slot { opening, since } = self.slot(timeout, budget);
        let session = match timeout_at(since + budget, opening).await {
            Ok(opened) => opened?,
            Err(_) => return Err(Fault::TimedOut),
        };
        if session.silence() > budget { Err(Fault::TimedOut) } else { Ok(session) }
    }

    fn slot(self: &Arc<Self>, timeout: Duration, budget: Duration) -> Slot {
        let (mut slots, key) = (self.slots.lock(), (Handle::current().id(), timeout));
        let mut since = Instant::now();
        if let Some(slot) = slots.get(&key) {
            match slot.opening.peek() {
                None => return slot.clone(),
                Some(Ok(session)) if !session.is_over() => return slot.clone(),
                // The next attempt goes on in the background.
                Some(Err(Fault::TimedOut)) => since = slot.since,
                Some(_) => {}
            }
        }
        let sessions = Arc::clone(self);
        let open = tokio::spawn(async move { sessions.open(timeout, budget).await });
        let open = async move {
            open.await.unwrap_or_else(|_| Err(Fault::Disconnected("the runtime is gone".into())))
        };
        let slot = Slot { opening: open.boxed().shared(), since };
        slots.insert(key, slot.clone());
        slot
    }

    /// Connects a new client.
    pub(super) async fn connect(
        &self,
        timeout: Duration,
        budget: Duration,
    ) -> Result<Client, Fault> {
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
            error => fault::of(&error),
        })
    }

    /// Makes what all locks need, where it is missing.
    pub(super) async fn plant(&self, client: &Client) -> Result<(), Error> {
        let persistent = CreateMode::Persistent.with_acls(self.address.acls());
        if client.get_data(&self.paths.base()).await.map(drop) != Err(Error::NoNode) {
            return Ok(());
        }
        for folder in self.paths.folders() {
            match client.create(&folder, b"", &persistent).await {
                // A folder above may belong to somebody else.
                Ok(_) | Err(Error::NodeExists | Error::NoAuth) => {}
                Err(error) => return Err(error),
            }
        }
        let base = first_base().to_string();
        match client.create(&self.paths.base(), base.as_bytes(), &persistent).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn open(&self, timeout: Duration, budget: Duration) -> Result<Arc<Session>, Fault> {
        let client = self.connect(timeout, budget).await?;
        let granted = client.session_timeout();
        if granted < timeout {
            return Err(Fault::Refused(format!(
                "sessions last {granted:?} at most, and the TTL with its lock-delay needs {timeout:?}: raise \
                 maxSessionTimeout of the servers, or take a shorter TTL"
            )));
        }
        let (owner, acls) = (Owner(random::stamped()), self.address.acls());
        let node = self.paths.session(owner);
        let made = async {
            self.plant(&client).await?;
            client.create(&node, b"", &CreateMode::Ephemeral.with_acls(acls)).await
        };
        made.await.map_err(|error| fault::of(&error))?;
        let session = Session::new(client, (owner, node), acls, timeout, Arc::clone(&self.clock));
        Ok(session)
    }
}
