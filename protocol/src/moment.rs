use std::time::Duration;

use crate::time::Time;

/// The server's clocks at one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The clock by which locks expire.
    pub now: Time,
    /// The clock by which eras are named: the time since 2026-01-01T00:00:00Z.
    pub clock: Duration,
    /// How long the server has been up.
    pub uptime: Duration,
}
