use std::time::Duration;

use super::lease::Keeping;

/// The longest TTL and the longest lock-delay.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A value that a lock service can't be built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct BuildError {
    setting: &'static str,
    problem: String,
}

impl BuildError {
    /// The problem with one setting.
    pub fn new(setting: &'static str, problem: impl Into<String>) -> BuildError {
        BuildError { setting, problem: problem.into() }
    }

    /// The method of the builder that was given the value.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

/// What one acquisition asks for besides the resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) ttl: Duration,
    pub(super) lock_delay: Duration,
    pub(super) drift: Duration,
}

/// The numbers of a lock service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) ttl: Duration,
    pub(super) drift: Option<Duration>,
    pub(super) retry_delay: Duration,
    pub(super) wait: Duration,
    /// How long one server may take to answer.
    pub(super) budget: Duration,
    pub(super) lock_delay: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) renew: bool,
}

impl Settings {
    pub(super) fn with_budget(budget: Duration) -> Settings {
        Settings {
            ttl: Duration::from_secs(10),
            drift: None,
            retry_delay: Duration::from_millis(100),
            wait: Duration::from_secs(30),
            budget,
            lock_delay: Duration::ZERO,
            max_hold: None,
            renew: true,
        }
    }

    pub(super) fn terms(&self) -> Terms {
        Terms { ttl: self.ttl, lock_delay: self.lock_delay, drift: self.drift() }
    }

    pub(super) fn keeping(&self) -> Keeping {
        Keeping { ttl: self.ttl, renew: self.renew, max_hold: self.max_hold }
    }

    /// How long a lock may stay on a server that nobody talks to any more.
    pub(super) fn longest(&self) -> Duration {
        self.ttl + self.lock_delay
    }

    fn drift(&self) -> Duration {
        self.drift.unwrap_or(self.ttl / 100 + Duration::from_millis(2))
    }

    /// Whether all of it can be. `budget` is what the builder calls the budget.
    pub(super) fn check(&self, budget: &'static str) -> Result<(), BuildError> {
        let between = |setting, value: Duration, least: Duration, most: Duration| {
            let problem = || format!("{value:?} is not between {least:?} and {most:?}");
            let fits = (least..=most).contains(&value);
            if fits { Ok(()) } else { Err(BuildError::new(setting, problem())) }
        };
        between("ttl", self.ttl, Duration::from_millis(10), LONGEST)?;
        between(budget, self.budget, Duration::from_millis(1), self.ttl / 2)?;
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
