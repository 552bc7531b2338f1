//! The mover seals `f`. A first start: `protocol/src/start.rs`. Of `g`, for a mover; and of `f`, where starts race.

pub const STEPS: &str = "
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
