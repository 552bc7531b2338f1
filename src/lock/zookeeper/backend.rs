use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, NonEmpty, Owner, Resource};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::held::HeldNodes;
use super::locks::{Claim, Node, Refusal, contents};
use super::session::Session;
use super::sessions::Sessions;
use crate::holder::{Holder, HolderName};
use crate::lock::error::AcquireError;
use crate::lock::lease::held_lock::Grant;
use crate::lock::service::backend::LockBackend;
use crate::lock::service::health::Health;
use crate::lock::settings::Settings;
use crate::lock::wait::acquirer::Ask;
use crate::lock::wait::backoff::draining;
use crate::lock::wait::release_notifications::ReleaseNotifications;
use crate::random;
use crate::sequencer::Sequencer;
use crate::time::Clock;

/// A ZooKeeper ensemble, as one lock service uses it.
#[derive(derive_more::Debug)]
#[debug("Ensemble({:?})", sessions.address)]
pub struct Ensemble {
    pub(super) sessions: Arc<Sessions>,
    pub(super) holder: HolderName,
    pub(super) notifications: ReleaseNotifications,
}

impl LockBackend for Arc<Ensemble> {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.sessions.clock
    }

    async fn attempt(
        &self,
        resources: &NonEmpty<Resource>,
        ask: Ask,
        settings: &Settings,
    ) -> Result<Grant, AcquireError> {
        let (terms, budget, first) = (settings.terms(), settings.budget(), resources.first());
        let end = Instant::now() + budget;
        let session = self.sessions.get(terms.closed_for(), budget).await;
        let session = session.map_err(|fault| self.unavailable(first, fault))?;
        let owner = Owner(random::stamped());
        let signature = format!("{owner} {}", self.holder.as_str());
        let contents = contents(&signature, terms.closed_for(), &session);
        let claim = Claim { resources: resources.clone(), mode: ask.mode, owner, contents };
        let (sessions, asked) = (Arc::clone(&self.sessions), session.ask());
        let drained = Arc::clone(&session);
        // Before the servers are asked: their timeout counts from a later moment.
        let start = self.sessions.clock.now();
        let counted = sessions.outstanding.token();
        // A task is not dropped with the attempt: what was asked for is released when it is known.
        let take = async move {
            let _counted = counted;
            let taken = session.take(&sessions, &claim).await;
            drop(asked);
            taken.map(|nodes| Taken { session, sessions, nodes: Some(nodes), owner })
        };
        match timeout_at(end, tokio::spawn(take.in_current_span())).await {
            Ok(Ok(Ok(mut taken))) => {
                let deadline = terms.deadline(start);
                if self.sessions.clock.now() >= deadline {
                    return Err(self.unavailable(first, Fault::GrantedTooLate));
                }
                let Some(nodes) = taken.nodes.take() else {
                    return Err(self.unavailable(first, Fault::GrantedTooLate));
                };
                nodes.iter().for_each(|node| drained.end_drain(&node.folder));
                let lock = |node: &Node| Sequencer::new(node.resource.clone(), node.token);
                let locks = NonEmpty {
                    head: lock(nodes.first()),
                    tail: nodes.tail().iter().map(lock).collect(),
                };
                let sessions = (Arc::clone(&self.sessions), Arc::clone(&taken.session));
                let held = HeldNodes::new(
                    sessions,
                    nodes.into_iter().collect(),
                    signature,
                    settings,
                    start,
                );
                Ok(Grant { locks, deadline, held })
            }
            Ok(Ok(Err(Refusal::Held { resource, contents, shared }))) => {
                if shared && ask.drains {
                    let until = Instant::now() + draining(settings, budget, ask.end);
                    drained.drain(self.sessions.paths.lock(&resource), until);
                }
                let text = contents.and_then(|bytes| String::from_utf8(bytes).ok());
                let mut lines = text.as_deref().unwrap_or_default().lines();
                let signature = lines.next().unwrap_or_default();
                let left = lines.next().and_then(|left| left.parse().ok());
                let retry_after = left.map_or(terms.closed_for(), Duration::from_millis);
                Err(AcquireError::Held { resource, retry_after, holder: Holder::read(signature) })
            }
            Ok(Ok(Err(Refusal::Fault { resource, fault }))) => {
                Err(self.unavailable(&resource, fault))
            }
            Ok(Err(_)) => {
                Err(self.unavailable(first, Fault::Disconnected("the runtime is gone".into())))
            }
            Err(_) => Err(self.unavailable(first, Fault::TimedOut)),
        }
    }

    fn notifications(&self) -> &ReleaseNotifications {
        &self.notifications
    }

    async fn health(&self, settings: &Settings) -> Health {
        let probed = self.probe(settings).await;
        Health::of_one(probed.err().map(|fault| self.sessions.cause(fault)).into_iter().collect())
    }

    fn failing(&self, fault: Fault) -> Health {
        Health::of_one(vec![self.sessions.cause(fault)])
    }

    fn unavailable(&self, resource: &Resource, fault: Fault) -> AcquireError {
        AcquireError::Unavailable { resource: resource.clone(), cause: self.sessions.cause(fault) }
    }

    async fn settle(&self) {
        self.sessions.outstanding.wait().await;
    }
}

impl Ensemble {
    /// Asks whether a majority answers, within the budget.
    async fn probe(&self, settings: &Settings) -> Result<(), Fault> {
        let (end, budget) = (Instant::now() + settings.budget(), settings.budget());
        let session = self.sessions.get(settings.terms().closed_for(), budget).await?;
        let _asked = session.ask();
        let written = timeout_at(end, session.client.set_data(&session.node, b"", None)).await;
        match written.map_err(|_| Fault::TimedOut)? {
            Ok(_) => Ok(()),
            Err(error) => Err(super::fault::of(&error)),
        }
    }
}

/// What was granted, until a lease takes it. Dropped, it is released.
struct Taken {
    session: Arc<Session>,
    sessions: Arc<Sessions>,
    nodes: Option<NonEmpty<Node>>,
    owner: Owner,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes.take() {
            let (session, owner) = (Arc::clone(&self.session), self.owner.to_string());
            let release = session.release(nodes.into_iter().collect(), owner);
            let counted = self.sessions.outstanding.token();
            self.session.runtime.spawn(async move {
                let _counted = counted;
                release.await
            });
        }
    }
}
