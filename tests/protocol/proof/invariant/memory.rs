//! Stretches of memory, and what a node is in one.

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
";
