use std::sync::Arc;
use std::time::Duration;

use super::nodes::{Nodes, Starting};
use super::{BuildError, Node, Redlock};
use crate::lock::settings::Settings;
use crate::protocol::Fleet;
use crate::time::{Clock, SystemClock};

/// What the builder calls the time that one node may take.
pub(super) const NODE_BUDGET: &str = "node_budget";

/// Makes a node when the namespace is known.
type Source = Arc<dyn Fn(&str) -> Result<Arc<dyn Node>, BuildError> + Send + Sync>;

/// What a [`Redlock`] is built from.
#[derive(Clone)]
#[must_use]
pub struct RedlockBuilder {
    sources: Vec<Source>,
    namespace: String,
    clock: Arc<dyn Clock>,
    settings: Settings,
    starting: Starting,
}

impl Default for RedlockBuilder {
    fn default() -> RedlockBuilder {
        RedlockBuilder {
            sources: Vec::new(),
            namespace: "fencing".into(),
            clock: Arc::new(SystemClock),
            settings: Settings::with_budget(Duration::from_millis(50)),
            starting: Starting::default(),
        }
    }
}

impl RedlockBuilder {
    /// Adds nodes, besides those added before.
    pub fn nodes<N: Node>(self, nodes: impl IntoIterator<Item = N>) -> RedlockBuilder {
        nodes.into_iter().fold(self, |builder, node| {
            let node: Arc<dyn Node> = Arc::new(node);
            builder.source(Arc::new(move |_| Ok(Arc::clone(&node))))
        })
    }

    /// Adds a node that is made when the namespace is known.
    pub(super) fn source(mut self, source: Source) -> RedlockBuilder {
        self.sources.push(source);
        self
    }

    /// What the keys on the nodes begin with: lock services that are to know nothing of
    /// each other take different ones. Default: `fencing`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> RedlockBuilder {
        self.namespace = namespace.into();
        self
    }

    /// The clock that leases are timed by. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> RedlockBuilder {
        self.clock = Arc::new(clock);
        self
    }

    /// How long a lease lasts unless it is renewed. Default: 10 s.
    pub fn ttl(mut self, ttl: Duration) -> RedlockBuilder {
        self.settings.ttl = ttl;
        self
    }

    /// What clocks may differ by over one TTL; taken off each lease. Default: 1 % + 2 ms.
    pub fn drift(mut self, drift: Duration) -> RedlockBuilder {
        self.settings.drift = Some(drift);
        self
    }

    /// The pause between two attempts, give or take a random half. Default: 100 ms.
    pub fn retry_delay(mut self, delay: Duration) -> RedlockBuilder {
        self.settings.retry_delay = delay;
        self
    }

    /// How long [`Redlock::acquire`] waits. Default: 30 s.
    pub fn wait(mut self, limit: Duration) -> RedlockBuilder {
        self.settings.wait = limit;
        self
    }

    /// How long one node may take to connect and to answer. Default: 50 ms.
    pub fn node_budget(mut self, budget: Duration) -> RedlockBuilder {
        self.settings.budget = budget;
        self
    }

    /// How long a lock stays closed after a holder vanished without releasing it
    /// (Chubby's lock-delay). Default: zero.
    pub fn lock_delay(mut self, delay: Duration) -> RedlockBuilder {
        self.settings.lock_delay = delay;
        self
    }

    /// The longest that one lease is held, renewals included. Default: no bound.
    pub fn max_hold(mut self, most: Duration) -> RedlockBuilder {
        self.settings.max_hold = Some(most);
        self
    }

    /// Whether a watchdog renews the lease each third of its TTL. Default: it does.
    pub fn renew(mut self, renew: bool) -> RedlockBuilder {
        self.settings.renew = renew;
        self
    }

    /// Leaves a fleet in which too few nodes remember to the operator: new nodes, and nodes of
    /// which a majority forgot at once. Otherwise a new start leans on the nodes' clocks, and
    /// waits until locks that may be out have expired. Default: off.
    pub fn strict(mut self, strict: bool) -> RedlockBuilder {
        self.starting.strict = strict;
        self
    }

    /// Says that no lock can be out where all nodes are blank: they are new, and not restarted
    /// without their data. They start at once then, and with [`strict`](Self::strict) only
    /// then. Default: off; blank nodes stay closed until each server has been up for the TTL.
    ///
    /// Set it in tests, and where you start new nodes; not in every client for good, or nodes
    /// that all restart without their data start at once, too. `fencing fleet init` says the
    /// same once.
    pub fn first_start(mut self, nothing_can_be_out: bool) -> RedlockBuilder {
        self.starting.nothing_out = nothing_can_be_out;
        self
    }

    /// Builds the lock service. It connects with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value can't be, and why.
    pub fn build(self) -> Result<Redlock, BuildError> {
        let nodes: Vec<_> =
            self.sources.iter().map(|source| source(&self.namespace)).collect::<Result<_, _>>()?;
        let names = nodes.iter().map(|node| node.member());
        let fleet =
            Fleet::new(names).map_err(|error| BuildError::new("nodes", error.to_string()))?;
        self.settings.check(NODE_BUDGET)?;
        let nodes = Nodes::new(nodes, fleet, self.clock, self.settings, self.starting);
        Ok(Redlock { nodes: Arc::new(nodes), queues: Arc::default(), settings: self.settings })
    }
}
