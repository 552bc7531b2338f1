//! Random numbers for owners, nonces and delays.

use std::time::Duration;

#[cfg(feature = "testing")]
mod seeded;
mod system;

#[cfg(feature = "testing")]
use seeded::millis;
#[cfg(feature = "testing")]
pub use seeded::{fill, seed};
#[cfg(not(feature = "testing"))]
use system::{fill, millis};

/// Returns the number of an owner: the milliseconds since 1970 by this machine's clock in its first 48 bits,
/// for display, and 80 random bits. On a thread with a seed all of them come from the seed.
pub(crate) fn stamped() -> u128 {
    let random = u128();
    millis().map_or(random, |millis| millis << 80 | (random ^ random >> 48) & (u128::MAX >> 48))
}

pub(crate) fn u128() -> u128 {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

/// Returns a random duration from zero to `most`.
pub(crate) fn jitter(most: Duration) -> Duration {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    most.mul_f64(u64::from_le_bytes(bytes) as f64 / u64::MAX as f64)
}
