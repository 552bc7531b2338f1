//! What is to be proved, one question for the solver each.

use crate::proof::fact::{Fact, entries, read};
use crate::proof::invariant::{Conjunct, conjuncts, invariant, named};
use crate::proof::script::{assert, deny, language, taken};
use crate::proof::steps::{Step, steps};
use crate::proof::words;

/// The era of the start, and who promised it.
const PARAMS: &str = "(declare-const E Era)(declare-const Q Quorum)\n";

/// A started fleet `f`, before anybody has asked for anything.
///
/// How it came to be, from clocks, is outside of the proof. Its last part is not: the era
/// is promised, and some nodes are activated in it already, others not yet.
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

/// What is to be proved. It follows from the invariant at any moment.
const ORDER: &str = "
# No token is won twice, unless both share the lock.
no-token-twice | a Attempt, b Attempt
    (=> (and (won a) (won b) (= (token-era a) (token-era b))
             (= (token-count a) (token-count b)))
        (or (= a b) (and (shared a) (shared b))))
    because win-is-sound choice-is-sound winners-published grant-is-sound raise-is-sound
            memories-in-order grant-is-past raise-is-past grant-above-past raise-above-past
            grants-differ raise-and-grant-differ raises-differ sharers-are-noted no-token-of-both
# Who began after another had won, and wins, has the larger token. If both share the lock, it is
# not the smaller one.
later-is-larger | a Attempt, b Attempt
    (=> (and (before a b) (won b))
        (or (below (token-era a) (token-count a) (token-era b) (token-count b))
            (and (shared a) (shared b) (= (token-era a) (token-era b))
                 (= (token-count a) (token-count b)))))
    because win-is-sound choice-is-sound choice-above-counted before-is-sound later-granted-more
            fleets-in-order after-g-is-belated belated-after-moment sealers-of-f sealers-grant-no-f
";

/// A question: the text has no model if the goal holds.
pub struct Obligation {
    /// The step after which it must hold, or what else is proved.
    pub step: &'static str,
    pub goal: &'static str,
    pub text: String,
}

/// Everything: the start, each step and each conjunct that it touches, and order.
pub fn all() -> Vec<Obligation> {
    let started = invariant().iter().map(|part| at_start(&part.fact));
    let kept = steps().iter().flat_map(kept);
    started.chain(kept).chain(conjuncts(ORDER).iter().map(follows)).collect()
}

fn at_start(goal: &Fact) -> Obligation {
    let mut text = language();
    text += PARAMS;
    assert(&mut text, &started());
    text += &deny(goal, &[]);
    Obligation { step: "started", goal: goal.name, text }
}

/// The step keeps each conjunct about a word which it changes; the others are the same sentence before and after.
pub fn kept(step: &Step) -> Vec<Obligation> {
    let changed = words::with_derived(&step.changed());
    let touched = invariant().iter().filter(|part| words::mentions(part.fact.body, &changed));
    touched.map(|part| kept_part(step, part, &changed)).collect()
}

fn kept_part(step: &Step, part: &Conjunct, changed: &[&str]) -> Obligation {
    let mut text = language();
    assert(&mut text, std::slice::from_ref(&part.fact));
    assert(&mut text, &named(&part.because));
    taken(&mut text, step);
    text += &deny(&part.fact, changed);
    Obligation { step: step.name, goal: part.fact.name, text }
}

fn follows(goal: &Conjunct) -> Obligation {
    let mut text = language();
    assert(&mut text, &named(&goal.because));
    text += &deny(&goal.fact, &[]);
    Obligation { step: "order", goal: goal.fact.name, text }
}

pub fn started() -> Vec<Fact> {
    entries(STARTED).into_iter().map(|entry| read(entry).0).collect()
}
