//! An attempt: `protocol/src/acquire.rs`, and what the nodes do for it.

pub const STEPS: &str = "
# `Acquire::new`: an attempt begins. Whatever has been won by now is before it.
begin | A Attempt
    rule | is new | (not (began A))
    add | began | a Attempt | (= a A)
    add | before | a Attempt, b Attempt | (and (= b A) (won a))
    add | belated | a Attempt | (and (= a A) moment)
# `Store::acquire` where nobody is in the way: the node locks, counts one more, and answers. Those
# who share a lock are not in each other's way. (That only the first of them is counted makes their
# tokens equal; for order each of them might be.)
#
# A network may repeat the request at any time, so it has no end: an attempt that was won
# may still take a lock, though nobody counts the answer.
acquire | A Attempt, N Node
    rule | began | (began A)
    rule | admitted | (admitted N (fleet A))
    rule | free | a Attempt | (=> (lock N a) (and (shared A) (shared a)))
    set | count | n Node | (= n N) | (+ (count N) 1)
    add | lock | n Node, a Attempt | (and (= n N) (= a A))
    add | grant | a Attempt, n Node, m Memory, e Era, c Count |
        (and (= a A) (not (won A)) (= n N) (= m (memory N)) (= e (era N)) (= c (+ (count N) 1)))
# `Store::acquire` of one that joins others: it is not counted. It is where nothing has been counted
# in the era.
join | A Attempt, N Node, B Attempt
    rule | began | (began A)
    rule | admitted | (admitted N (fleet A))
    rule | shares | (shared A)
    rule | others | (and (lock N B) (shared B))
    rule | counted | (> (count N) 0)
    add | lock | n Node, a Attempt | (and (= n N) (= a A))
    add | grant | a Attempt, n Node, m Memory, e Era, c Count |
        (and (= a A) (not (won A)) (= n N) (= m (memory N)) (= e (era N)) (= c (count N)))
# `Store::acquire` where the lock is the attempt's own: answered, and not counted again.
answer again | A Attempt, N Node
    rule | began | (began A)
    rule | admitted | (admitted N (fleet A))
    rule | owner | (lock N A)
    rule | not won | (not (won A))
    add | grant | a Attempt, n Node, m Memory, e Era, c Count |
        (and (= a A) (= n N) (= m (memory N)) (= e (era N)) (= c (count N)))
# `Ballot::choose`: a majority has granted, and the token is the largest grant so far.
choose | A Attempt, Q Quorum, E Era, C Count, N Node, M Memory, qm Node>Memory, qe Node>Era, qc Node>Count
    rule | once | (not (chose A))
    rule | majority | (= (of Q) (fleet A))
    rule | was granted | (grant A N M E C)
    rule | largest | n Node | (=> (in n Q) (and (grant A n (qm n) (qe n) (qc n)) (upto (qe n) (qc n) E C)))
    add | chose | a Attempt | (= a A)
    set | token-era | a Attempt | (= a A) | E
    set | token-count | a Attempt | (= a A) | C
    set | choosers | a Attempt | (= a A) | Q
    set | counted-memory | a Attempt, n Node | (= a A) | (qm n)
    set | counted-era | a Attempt, n Node | (= a A) | (qe n)
    set | counted-count | a Attempt, n Node | (= a A) | (qc n)
# `Store::publish`: the node raises its count to the token, and its era with it.
#
# `M` is the memory of the grant for which `Ballot::publish` asked. The answer counts
# until the attempt is won.
publish | A Attempt, N Node, M Memory, E Era, C Count
    rule | chose | (chose A)
    rule | granted less | (and (grant A N M E C) (below E C (token-era A) (token-count A)))
    rule | admitted | (admitted N (fleet A))
    rule | owner | (lock N A)
    rule | nonce | (= M (memory N))
    rule | count | (upto (era N) (count N) (token-era A) (token-count A))
    set | era | n Node | (= n N) | (token-era A)
    set | count | n Node | (= n N) | (token-count A)
    add | raised | a Attempt, n Node, m Memory | (and (= a A) (not (won A)) (= n N) (= m (memory N)))
# `Acquire::outcome`: a majority is published. A grant above the token is not.
win | A Attempt, Q Quorum, qm Node>Memory
    rule | chose | (chose A)
    rule | once | (not (won A))
    rule | majority | (= (of Q) (fleet A))
    rule | published | n Node | (=> (in n Q) (published A n (qm n)))
    add | won | a Attempt | (= a A)
    set | winners | a Attempt | (= a A) | Q
    set | winner-memory | a Attempt, n Node | (= a A) | (qm n)
    add | shared-won | e Era, c Count | (and (shared A) (= e (token-era A)) (= c (token-count A)))
    set | first-sharer | e Era, c Count |
        (and (shared A) (= e (token-era A)) (= c (token-count A)) (not (shared-won e c))) | A
# `Store::renew` where the lock of one that is alone is missing: it is set again. That this is
# refused over a count that somebody has taken since is for exclusion; order does not need it.
heal | A Attempt, N Node
    rule | won | (won A)
    rule | alone | (not (shared A))
    rule | admitted | (admitted N (fleet A))
    rule | free | a Attempt | (not (lock N a))
    add | lock | n Node, a Attempt | (and (= n N) (= a A))
# `Store::renew` where a part is missing: it is set again, and the count is raised to the token of
# the lease, which it must not be above. Where nothing has been counted in a larger era, nothing is
# raised.
#
# `E` and `C` are the era and the count after it.
heal part | A Attempt, N Node, E Era, C Count
    rule | won | (won A)
    rule | shares | (shared A)
    rule | admitted | (admitted N (fleet A))
    rule | free | a Attempt | (=> (lock N a) (shared a))
    rule | count |
        (or (upto (era N) (count N) (token-era A) (token-count A))
            (and (> (era N) (token-era A)) (= (count N) 0)))
    rule | raised |
        (ite (> (era N) (token-era A)) (and (= E (era N)) (= C (count N)))
             (and (= E (token-era A)) (= C (token-count A))))
    set | era | n Node | (= n N) | E
    set | count | n Node | (= n N) | C
    add | lock | n Node, a Attempt | (and (= n N) (= a A))
";
