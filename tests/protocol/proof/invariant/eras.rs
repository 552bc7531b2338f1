//! Stretches of memory, and what a node is in one. Eras: who promised them, and who must know them.

pub const FACTS: &str = "
# A node's memory is its own and has begun.
memory-is-own | n Node
    (and (= (owner (memory n)) n) (used (memory n)))
# Every other memory of the node is earlier than the one it has.
memory-is-last | m Memory
    (=> (used m) (or (= m (memory (owner m))) (earlier m (memory (owner m)))))
# The memories of a node come one after the other.
memories-in-order | m Memory, k Memory
    (=> (and (used m) (used k) (= (owner m) (owner k)) (not (= m k))) (or (earlier m k) (earlier k m)))
    because memory-is-last
earlier-is-own | m Memory, k Memory
    (=> (earlier m k) (and (used m) (used k) (= (owner m) (owner k))))
    because memory-is-own
# Nothing comes after the memory that a node has.
nothing-later | n Node, m Memory
    (not (earlier (memory n) m))
    because memory-is-own earlier-is-own
# A node is admitted under one fleet, or sealed, or neither.
one-standing | n Node
    (and (not (and (admitted n f) (admitted n g)))
         (=> (sealed n) (not (or (admitted n f) (admitted n g)))))
# A node that has forgotten has granted nothing in the memory that it has.
forgotten-granted-none | a Attempt, n Node, e Era, c Count
    (=> (forgotten n) (not (or (grant a n (memory n) e c) (raised a n (memory n)))))
    because grant-is-sound raise-is-sound
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
