//! A started fleet `f`, before anybody has asked for anything.
//!
//! How it came to be, from clocks, is outside of the proof. Its last part is not: the era
//! is promised, and some nodes are activated in it already, others not yet.

use crate::proof::fact::{Fact, fact};

/// The era of the start, and who promised it.
pub const PARAMS: &str = "(declare-const E Era)(declare-const Q Quorum)\n";

pub fn started() -> Vec<Fact> {
    vec![
        fact("admitted", "n Node", "(=> (admitted n f) (and (= (era n) E) (= (count n) 0)))"),
        fact("no move", "n Node", "(not (or moment (admitted n g) (sealed n)))"),
        fact("memory", "m Memory", "(and (= (used m) (= m (memory (owner m)))) (not (late m)))"),
        fact("memory is own", "n Node", "(= (owner (memory n)) n)"),
        fact("one memory", "m Memory, k Memory, e Era", "(not (or (earlier m k) (past m e)))"),
        fact(
            "one lock",
            "n Node, a Attempt, b Attempt",
            "(=> (and (lock n a) (lock n b)) (or (= a b) (and (shared a) (shared b))))",
        ),
        fact(
            "promised",
            "e Era",
            "(and (= (promised e) (= e E)) (= first-era E) (= (promisers E) Q) (= (of Q) f))",
        ),
        fact("promise", "n Node", "(=> (in n Q) (>= (written n) E))"),
        fact(
            "attempts",
            "a Attempt, b Attempt",
            "(not (or (began a) (before a b) (chose a) (won a) (belated a)))",
        ),
        fact(
            "grants",
            "a Attempt, n Node, m Memory, e Era, c Count",
            "(not (or (grant a n m e c) (raised a n m)))",
        ),
        fact("tokens", "e Era, c Count", "(not (shared-won e c))"),
        fact(
            "clients",
            "x Client, n Node, m Memory, e Era",
            "(not (or (prepared x) (told x n e) (aims x e) (answered x n m e) (floored x)))",
        ),
        // Who starts f may have died, or be at it.
        fact(
            "starters",
            "x Client, n Node",
            "(=> (starting x) (and (= (under x) f) (= (pick x) E) (= (saw x n) (memory n))))",
        ),
    ]
}
