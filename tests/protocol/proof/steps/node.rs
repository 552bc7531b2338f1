//! What befalls a node, and how it comes back: a re-admission or a collection, the move, a first start.

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

# A re-admission or a collection: `protocol/src/readmit.rs`, phase by phase.

# `Readmit::prepared`: the target has marked its memory.
prepare | X Client
    rule | once | (not (prepared X))
    add | prepared | x Client | (= x X)
    set | stretch | x Client | (= x X) | (memory (target X))
# `Request::Read`: a node that is admitted under the client's fleet tells what is written.
read | X Client, N Node
    rule | prepared | (prepared X)
    rule | admitted | (admitted N (under X))
    add | told | x Client, n Node, v Era | (and (= x X) (= n N) (= v (written N)))
# `Request::Reserve`, at any node: a promise harms nobody. Whose promise counts is the
# matter of those who ask for it.
reserve | N Node, E Era
    raise reserved | E
# `Readmit::read`: a majority told, and the era is larger than what it told.
aim | X Client, Q Quorum, E Era, qv Node>Era
    rule | majority | (= (of Q) (under X))
    rule | read | n Node | (=> (in n Q) (told X n (qv n)))
    rule | above | n Node | (=> (in n Q) (> E (qv n)))
    add | aims | x Client, e Era | (and (= x X) (= e E))
# `Readmit::confirmed`: a majority answered the promise and, asked once more, is admitted
# in the same memory. So at the moment when the second round began it held the promise.
confirm | X Client, Q Quorum, E Era
    rule | aims | (aims X E)
    rule | majority | (= (of Q) (under X))
    rule | held | n Node | (=> (in n Q) (and (admitted n (under X)) (>= (written n) E)))
    rule | first | (not (promised E))
    add | promised | e Era | (= e E)
    set | promisers | e Era | (= e E) | Q
# `Store::activate` for a re-admission or a collection: in the memory that was prepared,
# and only when a majority has promised the era.
activate | X Client, N Node, E Era
    rule | aims | (and (aims X E) (= (target X) N))
    rule | promised | (and (promised E) (= (of (promisers E)) (under X)))
    rule | nonce | (= (stretch X) (memory N))
    rule | fleet | (not (admitted N (other (under X))))
    rule | seal | (=> (sealed N) (= (under X) g))
    rule | grows | (> E (era N))
    activated | (under X) | E

# The mover seals `f`. A first start: `protocol/src/start.rs`. Of `g`, for a mover; and of `f`, where starts race.

# `Store::seal` of a node that is admitted under f: it leaves f, and answers.
seal | X Client, N Node, E Era
    rule | admitted | (admitted N f)
    set | admitted | n Node, h Fleet | (= n N) | false
    set | sealed | n Node | (= n N) | true
    raise reserved | E
    add | answered | x Client, n Node, m Memory, v Era |
        (and (= x X) (= n N) (= m (memory N)) (>= v (written N)))
# `Store::seal` of a node that is sealed, or that has left f for g already.
seal again | X Client, N Node, E Era
    rule | has left | (or (sealed N) (admitted N g))
    raise reserved | E
    add | answered | x Client, n Node, m Memory, v Era |
        (and (= x X) (= n N) (= m (memory N)) (>= v (written N)))
# The mover's second round: a majority of f answers in the memory in which it answered
# first. So at the moment when this round began it was sealed; the floor is above what it
# told.
moment | X Client, Q Quorum, E Era, qm Node>Memory, qv Node>Era
    rule | majority | (= (of Q) f)
    rule | answered | n Node | (=> (in n Q) (answered X n (qm n) (qv n)))
    rule | held | n Node | (=> (in n Q) (= (qm n) (memory n)))
    rule | above | n Node | (=> (in n Q) (> E (qv n)))
    is | moment | true
    is | sealers | (ite moment sealers Q)
    add | floored | x Client | (= x X)
    set | floor | x Client | (= x X) | E
# S1: every node of the fleet is prepared, and then tells what is written, in the same
# memory. At the moment when the last was prepared all of them were in the memories that
# were marked; what they told later is not less than what was written then.
#
# Here is the one place that assumes that no more than a minority has forgotten: a majority
# `R` is admitted, or still in the memory that it had when the fleet began.
survey | X Client, R Quorum, E Era
    rule | once | (not (starting X))
    rule | floor | (=> (= (under X) g) (and (floored X) (>= E (floor X))))
    rule | fleet | n Node | (=> (member n (under X)) (not (admitted n (other (under X)))))
    rule | seal | n Node | (=> (and (member n f) (= (under X) f)) (not (sealed n)))
    rule | above | n Node | (=> (member n (under X)) (> E (written n)))
    rule | majority | (= (of R) (under X))
    rule | minority forgot | n Node, e Era |
        (=> (and (in n R) (past (memory n) e) (= (of (promisers e)) (under X))) (admitted n (under X)))
    add | starting | x Client | (= x X)
    set | saw | x Client, n Node | (= x X) | (memory n)
    set | pick | x Client | (= x X) | E
# S2, S3: a majority promised the era and, prepared once more, answers in the memory in
# which it was prepared first. So at the moment when S3 began it held the promise.
promise | X Client, Q Quorum
    rule | starting | (starting X)
    rule | majority | (= (of Q) (under X))
    rule | nonce | n Node | (=> (in n Q) (= (memory n) (saw X n)))
    rule | seal | n Node | (=> (and (in n Q) (= (under X) f)) (not (sealed n)))
    rule | fleet | n Node | (=> (in n Q) (not (admitted n (other (under X)))))
    rule | held | n Node | (=> (in n Q) (>= (written n) (pick X)))
    rule | first | (not (promised (pick X)))
    add | promised | e Era | (= e (pick X))
    set | promisers | e Era | (= e (pick X)) | Q
# S4: `Store::activate` of one node of the fleet that is started.
start | X Client, N Node
    rule | starting | (and (starting X) (member N (under X)))
    rule | nonce | (= (memory N) (saw X N))
    rule | promised | (and (promised (pick X)) (= (of (promisers (pick X))) (under X)))
    rule | fleet | (not (admitted N (other (under X))))
    rule | seal | (=> (sealed N) (= (under X) g))
    rule | grows | (> (pick X) (era N))
    activated | (under X) | (pick X)
";
