//! The mover seals `f`.

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
";
