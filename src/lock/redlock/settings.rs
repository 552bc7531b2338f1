use std::time::Duration;

use super::builder::BuildError;
use super::fleet::Terms;
use crate::lock::lease::Keeping;

/// The longest TTL and the longest lock-delay.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The numbers of a lock service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) ttl: Duration,
    pub(super) drift: Option<Duration>,
    pub(super) retry_delay: Duration,
    pub(super) wait: Duration,
    pub(super) node_budget: Duration,
    pub(super) lock_delay: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) renew: bool,
    pub(super) strict: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
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

impl Settings {
    pub(super) fn terms(&self) -> Terms {
        Terms { ttl: self.ttl, lock_delay: self.lock_delay, drift: self.drift() }
    }

    pub(super) fn keeping(&self) -> Keeping {
        Keeping { ttl: self.ttl, renew: self.renew, max_hold: self.max_hold }
    }

    /// How long a lock may stay on a node that nobody talks to any more.
    pub(super) fn longest(&self) -> Duration {
        self.ttl + self.lock_delay
    }

    fn drift(&self) -> Duration {
        self.drift.unwrap_or(self.ttl / 100 + Duration::from_millis(2))
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        let between = |setting, value: Duration, least: Duration, most: Duration| {
            let problem = || format!("{value:?} is not between {least:?} and {most:?}");
            let fits = (least..=most).contains(&value);
            if fits { Ok(()) } else { Err(BuildError::new(setting, problem())) }
        };
        between("ttl", self.ttl, Duration::from_millis(10), LONGEST)?;
        between("node_budget", self.node_budget, Duration::from_millis(1), self.ttl / 2)?;
        between("drift", self.drift(), Duration::ZERO, self.ttl / 2)?;
        between("retry_delay", self.retry_delay, Duration::from_millis(1), LONGEST)?;
        between("lock_delay", self.lock_delay, Duration::ZERO, LONGEST)?;
        between("wait", self.wait, Duration::ZERO, Duration::from_secs(365 * 24 * 60 * 60))?;
        match self.max_hold {
            Some(most) => between("max_hold", most, self.ttl, LONGEST * 365),
            None => Ok(()),
        }
    }
}
