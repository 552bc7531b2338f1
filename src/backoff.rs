use std::time::Duration;

use crate::random::jitter;

/// The pauses between tries: each random, from a half of a bound to the whole of it. The bound doubles up to a limit.
pub struct Backoff {
    first: Duration,
    bound: Duration,
    limit: Duration,
}

impl Backoff {
    pub fn new(first: Duration, limit: Duration) -> Backoff {
        Backoff { first, bound: first, limit }
    }

    pub fn pause(&mut self) -> Duration {
        let half = self.bound / 2;
        self.bound = self.bound.saturating_mul(2).min(self.limit);
        half + jitter(half)
    }

    /// Begins with the first pause again.
    pub fn reset(&mut self) {
        self.bound = self.first;
    }
}
