//! Eras: who promised them, and who must know them.

pub const FACTS: &str = "
# A node grants in an era that a majority of its fleet has promised.
era-is-promised | n Node, h Fleet
    (=> (admitted n h) (and (promised (era n)) (= (of (promisers (era n))) h)))
    because win-is-sound choice-is-sound one-standing
# Who promised an era knows it, unless he has forgotten since and is not back.
promise-is-kept | n Node, e Era
    (=> (and (promised e) (in n (promisers e)))
        (or (>= (written n) e) (and (forgotten n) (past (memory n) e))))
    because aim-above-past pick-above-past
# A node that is back is in a larger era than any promised before its memory began.
back-in-larger-era | n Node, e Era
    (=> (and (not (forgotten n)) (past (memory n) e)) (> (era n) e))
    because aim-above-past pick-above-past memory-is-own
past-is-promised | m Memory, e Era
    (=> (past m e) (promised e))
# Every era of g is larger than every era of f.
fleets-in-order | e Era, d Era
    (=> (and (promised e) (promised d) (= (of (promisers e)) f) (= (of (promisers d)) g)) (< e d))
    because g-after-moment sealers-of-f sealers-left-f pick-above-f aim-above-f start-of-f-not-late
# A client that re-admits has marked a memory of its target.
stretch-is-targets | x Client
    (=> (prepared x) (and (used (stretch x)) (= (owner (stretch x)) (target x))))
    because memory-is-own
# It reads only after that.
read-after-prepare | x Client, n Node, v Era
    (=> (told x n v) (prepared x))
# So whoever promised an era before the target's memory began, and is read, tells it.
reader-tells | x Client, n Node, v Era, e Era
    (=> (and (told x n v) (past (stretch x) e) (= (of (promisers e)) (under x))
             (in n (promisers e)))
        (>= v e))
    because past-is-promised read-after-prepare promise-is-kept stretch-is-targets
# And a node of g tells more than any era of f.
reader-of-g-tells | x Client, n Node, v Era, e Era
    (=> (and (told x n v) (= (under x) g) (promised e) (= (of (promisers e)) f)) (> v e))
    because era-is-promised fleets-in-order sealers-of-f sealers-left-f told-by-g-after-moment
            start-of-f-not-late
# A client goes on only with what it read after it had prepared its target.
aim-after-prepare | x Client, e Era
    (=> (aims x e) (prepared x))
    because read-after-prepare
# Its era is above every one promised before the target's memory began.
aim-above-past | x Client, e Era, d Era
    (=> (and (aims x e) (past (stretch x) d)) (> e d))
    because aim-after-prepare past-is-promised reader-tells reader-of-g-tells past-of-g-is-late
            late-after-moment sealers-not-read sealers-of-f stretch-is-targets
# Under g it is above every era of f.
aim-above-f | x Client, e Era, d Era
    (=> (and (aims x e) (= (under x) g) (promised d) (= (of (promisers d)) f)) (> e d))
    because reader-of-g-tells aims-of-g-after-moment sealers-of-f sealers-left-f start-of-f-not-late
";
