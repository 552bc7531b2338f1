//! A started fleet `f`, before anybody has asked for anything.
//!
//! How it came to be, from clocks, is outside of the proof. Its last part is not: the era
//! is promised, and some nodes are activated in it already, others not yet.

use crate::proof::fact::{Fact, entries, read};

/// The era of the start, and who promised it.
pub const PARAMS: &str = "(declare-const E Era)(declare-const Q Quorum)\n";

const STARTED: &str = "
admitted | n Node
    (=> (admitted n f) (and (= (era n) E) (= (count n) 0)))
no move | n Node
    (not (or moment (admitted n g) (sealed n)))
memory | m Memory
    (and (= (used m) (= m (memory (owner m)))) (not (late m)))
memory is own | n Node
    (= (owner (memory n)) n)
one memory | m Memory, k Memory, e Era
    (not (or (earlier m k) (past m e)))
one lock | n Node, a Attempt, b Attempt
    (=> (and (lock n a) (lock n b)) (or (= a b) (and (shared a) (shared b))))
promised | e Era
    (and (= (promised e) (= e E)) (= first-era E) (= (promisers E) Q) (= (of Q) f))
promise | n Node
    (=> (in n Q) (>= (written n) E))
attempts | a Attempt, b Attempt
    (not (or (began a) (before a b) (chose a) (won a) (belated a)))
grants | a Attempt, n Node, m Memory, e Era, c Count
    (not (or (grant a n m e c) (raised a n m)))
tokens | e Era, c Count
    (not (shared-won e c))
clients | x Client, n Node, m Memory, e Era
    (not (or (prepared x) (told x n e) (aims x e) (answered x n m e) (floored x)))
# Who starts f may have died, or be at it.
starters | x Client, n Node
    (=> (starting x) (and (= (under x) f) (= (pick x) E) (= (saw x n) (memory n))))
";

pub fn started() -> Vec<Fact> {
    entries(STARTED).into_iter().map(|entry| read(entry).0).collect()
}
