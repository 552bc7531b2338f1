//! The move from `f` to `g`.

pub const FACTS: &str = "
# What the seal of a majority of f at one moment means from then on.

sealers-of-f
    (=> moment (= (of sealers) f))
# Nothing of g is promised before that moment, ...
g-after-moment | e Era
    (=> (and (promised e) (= (of (promisers e)) g)) moment)
    because pick-above-f aims-of-g-after-moment
# ... so a memory that began after a promise of g began after it.
late-after-moment | m Memory
    (=> (late m) moment)
past-of-g-is-late | m Memory, e Era
    (=> (and (past m e) (= (of (promisers e)) g)) (late m))
    because past-is-promised g-after-moment
# When it came f had begun, with an era that f promised.
late-past-f | m Memory
    (=> (late m) (and (past m first-era) (= (of (promisers first-era)) f)))
    because f-has-begun
f-has-begun
    (and (promised first-era) (= (of (promisers first-era)) f))
# In a memory that began after the moment no node comes back under f.
late-never-f | n Node
    (=> (late (memory n)) (not (or (admitted n f) (sealed n))))
    because memory-is-own aim-of-f-not-late start-of-f-not-late
# The sealed majority leaves f for good.
sealers-left-f | n Node
    (=> (and moment (in n sealers)) (and (not (admitted n f)) (=> (forgotten n) (late (memory n)))))
    because one-standing answer-seals aim-of-f-not-late start-of-f-not-late
# Nobody of it is read under f for a node that forgot after the moment.
sealers-not-read | x Client, n Node, v Era
    (=> (and (told x n v) (= (under x) f) (late (stretch x))) (not (in n sealers)))
    because read-after-prepare late-after-moment stretch-is-targets sealers-left-f
# So nobody comes back under f in a memory that began after the moment.
aim-of-f-not-late | x Client, e Era
    (=> (and (aims x e) (= (under x) f)) (not (late (stretch x))))
    because aim-after-prepare stretch-is-targets sealers-not-read late-after-moment sealers-of-f
# Who re-admits under g read a node of g, so the moment is over.
aims-of-g-after-moment | x Client, e Era
    (=> (and (aims x e) (= (under x) g)) moment)
    because told-by-g-after-moment
told-by-g-after-moment | x Client, n Node, v Era
    (=> (and (told x n v) (= (under x) g)) moment)
    because era-is-promised g-after-moment
# Nobody of it grants under f to who began after the moment.
sealers-grant-no-f | a Attempt, n Node, m Memory, e Era, c Count
    (=> (and (belated a) (= (fleet a) f) (grant a n m e c)) (not (in n sealers)))
    because grant-is-sound sealers-left-f belated-after-moment
belated-after-moment | a Attempt
    (=> (belated a) moment)
# Who began after something was won under g began after the moment.
after-g-is-belated | a Attempt, b Attempt
    (=> (and (before a b) (= (fleet a) g)) (belated b))
    because choice-is-sound win-is-sound g-after-moment

# What the mover and those who start g know.

answer-is-own | x Client, n Node, m Memory, v Era
    (=> (answered x n m v) (and (used m) (= (owner m) n)))
    because memory-is-own
# In the memory in which it answered the mover a node stays sealed, or starts under g.
answer-seals | x Client, n Node, v Era
    (=> (answered x n (memory n) v) (or (sealed n) (admitted n g)))
    because answer-is-own
# What it answered is at least every era of f that it promised.
answer-tells | x Client, n Node, v Era, e Era
    (=> (and (answered x n (memory n) v) (promised e) (= (of (promisers e)) f)
             (in n (promisers e)))
        (>= v e))
    because promise-is-kept one-standing answer-seals answer-is-own
# The floor is above every era of f.
floor-above-f | x Client, e Era
    (=> (floored x) (and moment (=> (and (promised e) (= (of (promisers e)) f)) (> (floor x) e))))
    because sealers-of-f sealers-left-f answer-tells start-of-f-not-late
# Who starts g picks an era above every one of f.
pick-above-f | x Client, e Era
    (=> (and (starting x) (= (under x) g))
        (and moment (=> (and (promised e) (= (of (promisers e)) f)) (> (pick x) e))))
    because floor-above-f sealers-of-f sealers-left-f start-of-f-not-late
saw-is-own | x Client, n Node
    (=> (and (starting x) (member n (under x))) (and (used (saw x n)) (= (owner (saw x n)) n)))
    because memory-is-own
# The era is above every one promised before the memory that was prepared began.
pick-above-past | x Client, n Node, e Era
    (=> (and (starting x) (member n (under x)) (past (saw x n) e)) (> (pick x) e))
    because promise-is-kept past-is-promised floor-above-f saw-is-own g-after-moment sealers-left-f
            sealers-of-f late-past-f
# Nobody starts f in a memory that began after the moment.
start-of-f-not-late | x Client, n Node
    (=> (and (starting x) (= (under x) f) (member n f)) (not (late (saw x n))))
    because saw-is-own sealers-left-f sealers-of-f late-after-moment late-past-f
";
