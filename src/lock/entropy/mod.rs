//! Where owners, nonces and delays come from.

#[cfg(feature = "testing")]
mod seeded;
mod system;

#[cfg(feature = "testing")]
pub use seeded::{fill, seed};
#[cfg(not(feature = "testing"))]
use system::fill;

/// For an [`Owner`](crate::quorum::Owner) or a [`Nonce`](crate::quorum::Nonce).
pub(super) fn u128() -> u128 {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

/// From 0 up to 1.
pub(super) fn fraction() -> f64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes) as f64 / u64::MAX as f64
}
