//! A re-admission or a collection: `protocol/src/readmit.rs`, phase by phase.

pub const STEPS: &str = "
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
";
