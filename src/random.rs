//! Random numbers for owners, nonces and delays.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

thread_local! {
    /// The state of the generator, on a thread with a seed.
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Draws the owners, nonces and delays of locks on this thread from `seed` from now on, or
/// from the operating system again with `None`.
///
/// Use it for a simulation on one thread that must run the same way twice. Two locks on one thread still draw different
/// numbers. Two threads with the same seed draw the same numbers, so their locks must not share nodes.
#[allow(dead_code, reason = "only `testing` exports it")]
pub fn seed(seed: Option<u64>) {
    STATE.set(seed);
}

/// Returns the number of an owner: the milliseconds since 1970 by this machine's clock in its first 48 bits,
/// for display, and 80 random bits. On a thread with a seed all of them come from the seed.
pub(crate) fn timestamped() -> u128 {
    let (random, millis) = (u128(), since_1970().as_millis());
    match STATE.get() {
        None if (1..1 << 48).contains(&millis) => millis << 80 | (random ^ random >> 48) & (u128::MAX >> 48),
        _ => random,
    }
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

/// Zero if the clock shows an earlier time.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Fills `bytes` from this thread's seed, or from the operating system if it has none.
fn fill(bytes: &mut [u8]) {
    let Some(mut state) = STATE.get() else {
        if getrandom::fill(bytes).is_err() {
            // There is no entropy source. The time and the process id still tell owners apart.
            let apart = (since_1970().as_nanos() ^ (u128::from(std::process::id()) << 96)).to_le_bytes();
            bytes.iter_mut().zip(apart).for_each(|(byte, apart)| *byte = apart);
        }
        return;
    };
    for chunk in bytes.chunks_mut(8) {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        chunk.iter_mut().zip(mixed.to_le_bytes()).for_each(|(byte, mixed)| *byte = mixed);
    }
    STATE.set(Some(state));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_no_seed_does_not() {
        let draw = |from| {
            seed(from);
            [u128(), u128()]
        };
        assert_eq!(draw(Some(7)), draw(Some(7)));
        assert_ne!(draw(Some(7)), draw(Some(8)));
        assert_ne!(draw(Some(7))[0], draw(Some(7))[1]);
        assert_ne!(draw(None), draw(None));
    }
}
