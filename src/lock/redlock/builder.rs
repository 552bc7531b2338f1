use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fleet;

use super::nodes::{Nodes, StartRules};
use super::{BuildError, Node, Redlock};
use crate::lock::settings::{Settings, settings_setters};

/// Creates a node once the namespace is known.
type NodeSource = Arc<dyn Fn(&str) -> Result<Arc<dyn Node>, BuildError> + Send + Sync>;

/// Builds a [`Redlock`].
#[derive(Clone)]
#[must_use]
pub struct RedlockBuilder {
    pub(super) sources: Vec<NodeSource>,
    pub(in crate::lock) settings: Settings,
    start_rules: StartRules,
}

impl Redlock {
    /// Returns a builder, which takes the settings.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder {
            sources: Vec::new(),
            settings: Settings::new("node_budget", (Duration::from_millis(50), 4)),
            start_rules: StartRules::default(),
        }
    }
}

impl RedlockBuilder {
    /// Adds nodes to those that you added before.
    pub fn nodes<N: Node>(mut self, nodes: impl IntoIterator<Item = N>) -> RedlockBuilder {
        for node in nodes {
            let node: Arc<dyn Node> = Arc::new(node);
            self.sources.push(Arc::new(move |_| Ok(Arc::clone(&node))));
        }
        self
    }

    settings_setters!(namespace);

    /// Sets the time limit for one node to connect and to answer. Default: 50 ms, or a quarter of the TTL if less.
    pub fn node_budget(mut self, budget: Duration) -> RedlockBuilder {
        self.settings.budget = Some(budget);
        self
    }

    /// Lets only an operator start a fleet in which too few nodes remember: new nodes, or a fleet of which a majority
    /// forgot at once. By default clients start it: order then depends on the nodes' clocks, and the nodes grant
    /// nothing until all locks that may be held have expired.
    pub fn strict(mut self, strict: bool) -> RedlockBuilder {
        self.start_rules.strict = strict;
        self
    }

    /// Declares that blank nodes are new, and were not restarted without their data, so that no lock can be held. Then
    /// they start at once. With [`strict`](Self::strict) clients start blank nodes only if you set this. Default: off;
    /// blank nodes grant nothing until each server has been up for the TTL.
    ///
    /// It counts until a node has granted this client a lock, or named the holder of one. Set it in tests, and when you
    /// start new nodes. Do not set it in every client: each client that starts repeats the claim, even for nodes that
    /// have all restarted without their data. `fencing fleet init` makes it once.
    pub fn first_start(mut self, assume_no_locks: bool) -> RedlockBuilder {
        self.start_rules.assume_no_locks = assume_no_locks;
        self
    }

    /// Builds the lock service. It connects with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] names the wrong value, and the reason.
    pub fn build(self) -> Result<Redlock, BuildError> {
        let namespace = &self.settings.namespace;
        let nodes: Vec<_> = self.sources.iter().map(|source| source(namespace)).collect::<Result<_, _>>()?;
        let names = nodes.iter().map(|node| node.member());
        let fleet = Fleet::new(names).map_err(|error| BuildError::new("nodes", error.to_string()))?;
        let mut settings = self.settings.checked()?;
        // The nodes keep the budget that they begin with.
        settings.budget = Some(settings.budget());
        let nodes = Arc::new(Nodes::new(nodes, fleet, &settings, self.start_rules));
        let notifications = Arc::clone(&nodes.context.notifications);
        let outstanding = nodes.context.outstanding.clone();
        Ok(Redlock::over(nodes, notifications, outstanding, settings))
    }
}
