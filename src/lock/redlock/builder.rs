use std::sync::Arc;
use std::time::Duration;

use super::fleet::{Fleet, Terms};
use super::{Node, Redlock};
use crate::lock::lease::Keeping;
use crate::time::{Clock, SystemClock};

/// The longest TTL and the longest of every other duration.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A value that a lock service can't be built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct BuildError {
    setting: &'static str,
    problem: String,
}

impl BuildError {
    pub(super) fn new(setting: &'static str, problem: impl Into<String>) -> BuildError {
        BuildError { setting, problem: problem.into() }
    }

    /// The method of the builder that was given the value.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

/// Makes a node when the namespace is known.
type Source = Arc<dyn Fn(&str) -> Result<Arc<dyn Node>, BuildError> + Send + Sync>;

/// What a [`Redlock`] is built from.
#[derive(Clone)]
#[must_use]
pub struct RedlockBuilder {
    sources: Vec<Source>,
    namespace: String,
    clock: Arc<dyn Clock>,
    ttl: Duration,
    drift: Option<Duration>,
    retry_delay: Duration,
    wait: Duration,
    node_budget: Duration,
    lock_delay: Duration,
    max_hold: Option<Duration>,
    renew: bool,
    strict: bool,
}

impl Default for RedlockBuilder {
    fn default() -> RedlockBuilder {
        RedlockBuilder {
            sources: Vec::new(),
            namespace: "fencing".into(),
            clock: Arc::new(SystemClock),
            ttl: Duration::from_secs(10),
            drift: None,
            retry_delay: Duration::from_millis(100),
            wait: Duration::from_secs(30),
            node_budget: Duration::from_millis(50),
            lock_delay: Duration::ZERO,
            max_hold: None,
            renew: true,
            strict: false,
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
        self.ttl = ttl;
        self
    }

    /// What clocks may differ by over one TTL; taken off each lease. Default: 1 % + 2 ms.
    pub fn drift(mut self, drift: Duration) -> RedlockBuilder {
        self.drift = Some(drift);
        self
    }

    /// The pause between two attempts, give or take a random half. Default: 100 ms.
    pub fn retry_delay(mut self, delay: Duration) -> RedlockBuilder {
        self.retry_delay = delay;
        self
    }

    /// How long [`Redlock::acquire`] waits. Default: 30 s.
    pub fn wait(mut self, limit: Duration) -> RedlockBuilder {
        self.wait = limit;
        self
    }

    /// How long one node may take to connect and to answer. Default: 50 ms.
    pub fn node_budget(mut self, budget: Duration) -> RedlockBuilder {
        self.node_budget = budget;
        self
    }

    /// How long a lock stays closed after a holder vanished without releasing it
    /// (Chubby's lock-delay). Default: zero.
    pub fn lock_delay(mut self, delay: Duration) -> RedlockBuilder {
        self.lock_delay = delay;
        self
    }

    /// The longest that one lease is held, renewals included. Default: no bound.
    pub fn max_hold(mut self, most: Duration) -> RedlockBuilder {
        self.max_hold = Some(most);
        self
    }

    /// Whether a watchdog renews the lease each third of its TTL. Default: it does.
    pub fn renew(mut self, renew: bool) -> RedlockBuilder {
        self.renew = renew;
        self
    }

    /// Where a majority forgot at once, leave the fleet to the operator instead of
    /// leaning on the nodes' clocks; all-blank fleets still start. Default: off.
    pub fn strict(mut self, strict: bool) -> RedlockBuilder {
        self.strict = strict;
        self
    }

    /// Builds the lock service. It connects with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value can't be, and why.
    pub fn build(self) -> Result<Redlock, BuildError> {
        let drift = self.drift.unwrap_or(self.ttl / 100 + Duration::from_millis(2));
        let nodes: Vec<_> =
            self.sources.iter().map(|source| source(&self.namespace)).collect::<Result<_, _>>()?;
        self.check(&nodes, drift)?;
        let longest = self.ttl + self.lock_delay;
        let fleet = Fleet::new(nodes, self.clock, self.node_budget, self.strict, longest);
        Ok(Redlock {
            fleet: Arc::new(fleet),
            queues: Arc::default(),
            terms: Terms { ttl: self.ttl, lock_delay: self.lock_delay, drift },
            keeping: Keeping { ttl: self.ttl, renew: self.renew, max_hold: self.max_hold },
            retry_delay: self.retry_delay,
            wait: self.wait,
        })
    }

    fn check(&self, nodes: &[Arc<dyn Node>], drift: Duration) -> Result<(), BuildError> {
        if nodes.is_empty() || nodes.len() > 99 {
            return Err(BuildError::new("nodes", "there must be 1 to 99 nodes"));
        }
        let mut names: Vec<&str> = nodes.iter().map(|node| node.name()).collect();
        names.sort_unstable();
        if let Some([twice, _]) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            return Err(BuildError::new("nodes", format!("{twice} is given twice")));
        }
        let between = |setting, value: Duration, least: Duration, most: Duration| {
            let problem = || format!("{value:?} is not between {least:?} and {most:?}");
            let fits = (least..=most).contains(&value);
            if fits { Ok(()) } else { Err(BuildError::new(setting, problem())) }
        };
        between("ttl", self.ttl, Duration::from_millis(10), LONGEST)?;
        between("node_budget", self.node_budget, Duration::from_millis(1), self.ttl / 2)?;
        between("drift", drift, Duration::ZERO, self.ttl / 2)?;
        between("retry_delay", self.retry_delay, Duration::from_millis(1), LONGEST)?;
        between("lock_delay", self.lock_delay, Duration::ZERO, LONGEST)?;
        between("wait", self.wait, Duration::ZERO, Duration::from_secs(365 * 24 * 60 * 60))?;
        match self.max_hold {
            Some(most) => between("max_hold", most, self.ttl, LONGEST * 365),
            None => Ok(()),
        }
    }
}
