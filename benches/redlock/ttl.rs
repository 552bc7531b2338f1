use std::time::Duration;

/// How long a lock lasts.
pub const TTL: Duration = Duration::from_secs(10);
