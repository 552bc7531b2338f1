use std::time::Duration;

use fencing_protocol::{Owner, Resource};

/// Returns the field of the memory that has the count of a resource.
pub(super) fn field(resource: &Resource) -> String {
    format!("c:{resource}")
}

/// Returns whole milliseconds, rounded up, at least one unless zero: Redis refuses `PX 0`.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the value of a lock that an owner holds, or its member: the owner, and behind a space the name
/// of its client, for people. The scripts compare the whole of it.
pub(super) fn signed(owner: &Owner, signature: &str) -> String {
    format!("{owner}{signature}")
}
