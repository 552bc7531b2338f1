//! The move from `f` to `g`.

use super::{Conjunct, holds};

pub fn facts() -> Vec<Conjunct> {
    [sealed(), starters()].concat()
}

/// What the seal of a majority of f at one moment means from then on.
fn sealed() -> Vec<Conjunct> {
    vec![
        holds("sealers-of-f", "", "(=> moment (= (of sealers) f))", &[]),
        // Nothing of g is promised before that moment, ...
        holds(
            "g-after-moment",
            "e Era",
            "(=> (and (promised e) (= (of (promisers e)) g)) moment)",
            &["pick-above-f", "aims-of-g-after-moment"],
        ),
        // ... so a memory that began after a promise of g began after it.
        holds("late-after-moment", "m Memory", "(=> (late m) moment)", &[]),
        holds(
            "past-of-g-is-late",
            "m Memory, e Era",
            "(=> (and (past m e) (= (of (promisers e)) g)) (late m))",
            &["past-is-promised", "g-after-moment"],
        ),
        // When it came f had begun, with an era that f promised.
        holds(
            "late-past-f",
            "m Memory",
            "(=> (late m) (and (past m first-era) (= (of (promisers first-era)) f)))",
            &["f-has-begun"],
        ),
        holds(
            "f-has-begun",
            "",
            "(and (promised first-era) (= (of (promisers first-era)) f))",
            &[],
        ),
        // In a memory that began after the moment no node comes back under f.
        holds(
            "late-never-f",
            "n Node",
            "(=> (late (memory n)) (not (or (admitted n f) (sealed n))))",
            &["memory-is-own", "aim-of-f-not-late", "start-of-f-not-late"],
        ),
        // The sealed majority leaves f for good.
        holds(
            "sealers-left-f",
            "n Node",
            "(=> (and moment (in n sealers))
                 (and (not (admitted n f)) (=> (forgotten n) (late (memory n)))))",
            &["one-standing", "answer-seals", "aim-of-f-not-late", "start-of-f-not-late"],
        ),
        // Nobody of it is read under f for a node that forgot after the moment.
        holds(
            "sealers-not-read",
            "x Client, n Node, v Era",
            "(=> (and (told x n v) (= (under x) f) (late (stretch x))) (not (in n sealers)))",
            &["read-after-prepare", "late-after-moment", "stretch-is-targets", "sealers-left-f"],
        ),
        // So nobody comes back under f in a memory that began after the moment.
        holds(
            "aim-of-f-not-late",
            "x Client, e Era",
            "(=> (and (aims x e) (= (under x) f)) (not (late (stretch x))))",
            &[
                "aim-after-prepare",
                "stretch-is-targets",
                "sealers-not-read",
                "late-after-moment",
                "sealers-of-f",
            ],
        ),
        // Who re-admits under g read a node of g, so the moment is over.
        holds(
            "aims-of-g-after-moment",
            "x Client, e Era",
            "(=> (and (aims x e) (= (under x) g)) moment)",
            &["told-by-g-after-moment"],
        ),
        holds(
            "told-by-g-after-moment",
            "x Client, n Node, v Era",
            "(=> (and (told x n v) (= (under x) g)) moment)",
            &["era-is-promised", "g-after-moment"],
        ),
        // Nobody of it grants under f to who began after the moment.
        holds(
            "sealers-grant-no-f",
            "a Attempt, n Node, m Memory, e Era, c Count",
            "(=> (and (belated a) (= (fleet a) f) (grant a n m e c)) (not (in n sealers)))",
            &["grant-is-sound", "sealers-left-f", "belated-after-moment"],
        ),
        holds("belated-after-moment", "a Attempt", "(=> (belated a) moment)", &[]),
        // Who began after something was won under g began after the moment.
        holds(
            "after-g-is-belated",
            "a Attempt, b Attempt",
            "(=> (and (before a b) (= (fleet a) g)) (belated b))",
            &["choice-is-sound", "win-is-sound", "g-after-moment"],
        ),
    ]
}

/// What the mover and those who start g know.
fn starters() -> Vec<Conjunct> {
    vec![
        holds(
            "answer-is-own",
            "x Client, n Node, m Memory, v Era",
            "(=> (answered x n m v) (and (used m) (= (owner m) n)))",
            &["memory-is-own"],
        ),
        // In the memory in which it answered the mover a node stays sealed, or starts under g.
        holds(
            "answer-seals",
            "x Client, n Node, v Era",
            "(=> (answered x n (memory n) v) (or (sealed n) (admitted n g)))",
            &["answer-is-own"],
        ),
        // What it answered is at least every era of f that it promised.
        holds(
            "answer-tells",
            "x Client, n Node, v Era, e Era",
            "(=> (and (answered x n (memory n) v) (promised e) (= (of (promisers e)) f)
                      (in n (promisers e)))
                 (>= v e))",
            &["promise-is-kept", "one-standing", "answer-seals", "answer-is-own"],
        ),
        // The floor is above every era of f.
        holds(
            "floor-above-f",
            "x Client, e Era",
            "(=> (floored x)
                 (and moment (=> (and (promised e) (= (of (promisers e)) f)) (> (floor x) e))))",
            &["sealers-of-f", "sealers-left-f", "answer-tells", "start-of-f-not-late"],
        ),
        // Who starts g picks an era above every one of f.
        holds(
            "pick-above-f",
            "x Client, e Era",
            "(=> (and (starting x) (= (under x) g))
                 (and moment (=> (and (promised e) (= (of (promisers e)) f)) (> (pick x) e))))",
            &["floor-above-f", "sealers-of-f", "sealers-left-f", "start-of-f-not-late"],
        ),
        holds(
            "saw-is-own",
            "x Client, n Node",
            "(=> (and (starting x) (member n (under x)))
                 (and (used (saw x n)) (= (owner (saw x n)) n)))",
            &["memory-is-own"],
        ),
        // The era is above every one promised before the memory that was prepared began.
        holds(
            "pick-above-past",
            "x Client, n Node, e Era",
            "(=> (and (starting x) (member n (under x)) (past (saw x n) e)) (> (pick x) e))",
            &[
                "promise-is-kept",
                "past-is-promised",
                "floor-above-f",
                "saw-is-own",
                "g-after-moment",
                "sealers-left-f",
                "sealers-of-f",
                "late-past-f",
            ],
        ),
        // Nobody starts f in a memory that began after the moment.
        holds(
            "start-of-f-not-late",
            "x Client, n Node",
            "(=> (and (starting x) (= (under x) f) (member n f)) (not (late (saw x n))))",
            &["saw-is-own", "sealers-left-f", "sealers-of-f", "late-after-moment", "late-past-f"],
        ),
    ]
}
