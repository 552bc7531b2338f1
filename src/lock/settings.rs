use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Owner, Terms};

use crate::holder::{checked_name, own_name};
use crate::random;
use crate::time::{Clock, SystemClock};

/// The longest TTL and the longest lock-delay.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A value that a lock service can't be built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct BuildError {
    setting: &'static str,
    problem: String,
}

impl BuildError {
    /// Returns the error of one setting.
    pub fn new(setting: &'static str, problem: impl Into<String>) -> BuildError {
        BuildError { setting, problem: problem.into() }
    }

    /// Returns what is wrong with the value.
    pub(super) fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns the name of the builder's method that was given the value.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

/// What differs between back ends, and no builder sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackendDefaults {
    /// The shortest TTL.
    pub(super) least_ttl: Duration,
    /// The builder's name of the budget.
    budget_name: &'static str,
    /// The default budget: this, or this fraction of a short TTL.
    budget: (Duration, u32),
}

/// What the builders of all lock services can set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The clock that leases are timed by in this process.
    pub(super) clock: Arc<dyn Clock>,
    /// What the keys on the servers begin with.
    pub(super) namespace: String,
    pub(super) ttl: Duration,
    pub(super) drift: Option<Duration>,
    pub(super) retry_delay: Duration,
    pub(super) wait: Duration,
    /// Time limit for an answer of one server, if it was set.
    pub(super) budget: Option<Duration>,
    pub(super) defaults: BackendDefaults,
    pub(super) lock_delay: Duration,
    /// The minimum hold time of a lock, counted from before the request.
    pub(super) at_least: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) renew: bool,
    /// The name that the locks are held under, if one was given. [Checked](Settings::checked) settings have one: else
    /// that of the environment, or `host:pid`.
    pub(super) holder: Option<String>,
}

impl Settings {
    pub(super) fn new(budget_name: &'static str, budget: (Duration, u32)) -> Settings {
        let defaults = BackendDefaults { least_ttl: Duration::from_millis(10), budget_name, budget };
        Settings {
            clock: Arc::new(SystemClock),
            namespace: "fencing".into(),
            ttl: Duration::from_secs(10),
            drift: None,
            retry_delay: Duration::from_millis(100),
            wait: Duration::from_secs(30),
            budget: None,
            defaults,
            lock_delay: Duration::ZERO,
            at_least: Duration::ZERO,
            max_hold: None,
            renew: true,
            holder: None,
        }
    }

    pub(super) fn terms(&self) -> Terms {
        Terms { ttl: self.ttl, lock_delay: self.lock_delay, drift: self.drift() }
    }

    pub(super) fn budget(&self) -> Duration {
        let (longest, part) = self.defaults.budget;
        self.budget.unwrap_or(longest.min(self.ttl / part))
    }

    fn drift(&self) -> Duration {
        self.drift.unwrap_or(self.ttl / 100 + Duration::from_millis(2))
    }

    /// Returns a new owner, and what its locks say: the owner, and the name for display.
    #[allow(dead_code, reason = "unused with Redis alone")]
    pub(super) fn new_owner(&self) -> (Owner, String) {
        let owner = Owner(random::timestamped());
        (owner, format!("{owner} {}", self.holder.as_deref().unwrap_or_default()))
    }

    /// Returns the settings with another TTL, which the error names if they don't fit together.
    pub(super) fn with_ttl(&self, ttl: Duration) -> Result<Settings, BuildError> {
        let blamed = |error: BuildError| match error.setting {
            "ttl" => error,
            _ => BuildError::new("ttl", format!("with {ttl:?}, {error}")),
        };
        Settings { ttl, ..self.clone() }.checked().map_err(blamed)
    }

    pub(super) fn checked(mut self) -> Result<Settings, BuildError> {
        let (millisecond, half) = (Duration::from_millis(1), self.ttl / 2);
        let max_hold = self.max_hold.unwrap_or(self.ttl);
        for (setting, value, least, most) in [
            ("ttl", self.ttl, self.defaults.least_ttl, MAX_DURATION),
            (self.defaults.budget_name, self.budget(), millisecond, half),
            ("drift", self.drift(), Duration::ZERO, half),
            ("retry_delay", self.retry_delay, millisecond, MAX_DURATION),
            ("lock_delay", self.lock_delay, Duration::ZERO, MAX_DURATION),
            ("lock_at_least_for", self.at_least, Duration::ZERO, self.ttl),
            ("wait", self.wait, Duration::ZERO, YEAR),
            ("max_hold", max_hold, self.ttl, YEAR),
        ] {
            if !(least..=most).contains(&value) {
                let problem = format!("{value:?} is not between {least:?} and {most:?}");
                return Err(BuildError::new(setting, problem));
            }
        }
        let name = self.holder.as_deref().map_or_else(own_name, checked_name);
        self.holder = Some(name.map_err(|problem| BuildError::new("holder", problem))?);
        Ok(self)
    }
}

/// Writes the setters that every builder has, and those that some have, once. The builder has a field `settings`.
macro_rules! settings_setters {
    (@namespace) => {
        /// Sets the prefix of all keys on Redis and in etcd (there printable ASCII without slashes), or the parent node in
        /// ZooKeeper, below the chroot of the URL. Databases have none. Separate lock services need different
        /// namespaces. Default: `fencing`.
        pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
            self.settings.namespace = namespace.into();
            self
        }
    };
    (@budget) => {
        /// Sets how long one server may take to answer, a connection included. Default: 50 ms for Redis and 2 s for
        /// the others, and at most a part of the TTL: half for a database, a third for etcd, a quarter for Redis and
        /// ZooKeeper.
        pub fn budget(mut self, budget: std::time::Duration) -> Self {
            self.settings.budget = Some(budget);
            self
        }
    };
    ($($more:ident),*) => {
        $(settings_setters!(@$more);)*

        /// Sets the clock that leases are timed by in this process. Default:
        /// [`SystemClock`](crate::time::SystemClock).
        pub fn clock(mut self, clock: impl crate::time::Clock) -> Self {
            self.settings.clock = std::sync::Arc::new(clock);
            self
        }

        /// Sets how long a lease lasts unless it is renewed. Default: 10 s.
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self.settings.ttl = ttl;
            self
        }

        /// Sets by how much this machine's clock and the servers' clocks may drift apart over one
        /// TTL. It is subtracted from each lease. Default: 1 % + 2 ms.
        pub fn drift(mut self, drift: std::time::Duration) -> Self {
            self.settings.drift = Some(drift);
            self
        }

        /// Sets the first pause between two attempts of `acquire`, give or take a random half. Default:
        /// 100 ms. The pauses grow: to ten of these if the servers notify of releases, to two if not.
        pub fn retry_delay(mut self, delay: std::time::Duration) -> Self {
            self.settings.retry_delay = delay;
            self
        }

        /// Sets how long `acquire` waits. Default: 30 s.
        pub fn wait(mut self, limit: std::time::Duration) -> Self {
            self.settings.wait = limit;
            self
        }

        /// Sets how long a lock stays held after its holder crashed (Chubby's lock-delay). Default: zero.
        pub fn lock_delay(mut self, delay: std::time::Duration) -> Self {
            self.settings.lock_delay = delay;
            self
        }

        /// Sets the minimum hold time of a lock, counted from before the request (ShedLock's `lockAtLeastFor`). After
        /// an earlier release the lease ends at once, but the lock stays held for the rest. Use it for a job shorter
        /// than the clock skew of the machines that start it: otherwise it runs again on the next machine. At most the
        /// TTL, for which a crashed holder holds the lock anyway. Default: zero.
        pub fn lock_at_least_for(mut self, least: std::time::Duration) -> Self {
            self.settings.at_least = least;
            self
        }

        /// Sets the longest time that one lease is held, renewals included. Default: no bound.
        pub fn max_hold(mut self, most: std::time::Duration) -> Self {
            self.settings.max_hold = Some(most);
            self
        }

        /// Sets the holder's name: other clients see it in [`AcquireError::Held`](crate::lock::AcquireError), and
        /// operators in `fencing leases`. It is for display only, and several clients may have the same. 1 to 64 bytes
        /// of printable ASCII: no spaces, quotation marks and backslashes, and no dot at the end. Default: the
        /// environment variable `FENCING_HOLDER` when the service is built, or else `host:pid`.
        pub fn holder(mut self, name: impl Into<String>) -> Self {
            self.settings.holder = Some(name.into());
            self
        }

        /// Sets whether a watchdog renews the lease every third of its TTL. Default: it does.
        /// Without it you call [`Lease::renew`](crate::lock::Lease::renew).
        pub fn renew(mut self, renew: bool) -> Self {
            self.settings.renew = renew;
            self
        }
    };
}

pub(super) use settings_setters;
