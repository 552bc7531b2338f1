use std::cell::Cell;

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Draws the owners, nonces and delays of locks on this thread from `seed` from now on, or
/// from the operating system again with `None`.
///
/// Use it for a simulation on one thread that must run the same way twice. Two locks on one thread still draw different
/// numbers. Two threads with the same seed draw the same numbers, so their locks must not share nodes.
pub fn seed(seed: Option<u64>) {
    STATE.set(seed);
}

/// Returns the milliseconds since 1970, and nothing on a thread with a seed.
pub(super) fn millis() -> Option<u128> {
    STATE.get().is_none().then(super::system::millis).flatten()
}

/// Fills `bytes` from this thread's seed, or from the operating system if it has none.
pub fn fill(bytes: &mut [u8]) {
    let Some(mut state) = STATE.get() else { return super::system::fill(bytes) };
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
    use crate::random::u128;

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
