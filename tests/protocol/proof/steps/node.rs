//! What befalls a node.

pub const STEPS: &str = "
# `Store::release`, `Store::expire_lock`, `Store::expire_owner`: a lock, or a part in one, goes, at any
# time and for any reason.
vanish | A Attempt, N Node
    set | lock | n Node, a Attempt | (and (= n N) (= a A)) | false
# `Store::forget`, a restart, a flush, an older copy: the node comes back with any locks,
# counts and eras at all, in a new memory, and in no fleet.
forget | N Node, M Memory, E Era, R Era, C Count, held Attempt>Bool
    rule | memory is new | (and (not (used M)) (= (owner M) N))
    rule | one lock | a Attempt, b Attempt |
        (=> (and (held a) (held b)) (or (= a b) (and (shared a) (shared b))))
    set | admitted | n Node, h Fleet | (= n N) | false
    set | sealed | n Node | (= n N) | false
    set | memory | n Node | (= n N) | M
    set | era | n Node | (= n N) | E
    set | reserved | n Node | (= n N) | R
    set | count | n Node | (= n N) | C
    set | lock | n Node, a Attempt | (= n N) | (held a)
    add | used | m Memory | (= m M)
    add | earlier | m Memory, k Memory | (and (= k M) (or (= m (memory N)) (earlier m (memory N))))
    set | past | m Memory, e Era | (= m M) | (promised e)
    set | late | m Memory | (= m M) | moment
# `Store::publish` for another resource, or a part in its lock that is set again: the era grows to
# one of the same fleet, and the count of this resource is dropped with the era that it was of.
other resource | N Node, H Fleet, E Era
    rule | admitted | (admitted N H)
    rule | promised | (and (promised E) (= (of (promisers E)) H))
    rule | larger | (> E (era N))
    set | era | n Node | (= n N) | E
    set | count | n Node | (= n N) | 0
# `force.lua`, where an operator has taken the lock away: the count grows to any larger one. The lock
# vanishes in a step before this one; in a larger era the step is the one above, and then this one. The
# script raises no count where somebody else holds the lock alone. Order does not need that: there,
# nobody else could publish.
use up | N Node, C Count
    rule | larger | (> C (count N))
    set | count | n Node | (= n N) | C
";
