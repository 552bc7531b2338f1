//! The invariant is not empty talk: a run of a small world, step by step, in which three leases are won in order, one
//! after a node forgot and one after the move. Other runs are of those who share a lock.

mod run;
mod sharing;

pub use sharing::sharers;

use crate::proof::obligation::Obligation;
use run::Run;

/// Every rule of every step of the run, and what is seen at its end.
pub fn obligations() -> Vec<Obligation> {
    let mut run = Run::new();
    [FIRST_LEASE, NODE_FORGETS, TWO_MORE].into_iter().for_each(|script| run.steps(script));
    let in_order = "(and (won a1) (won a2) (won a3) (before a1 a2) (before a2 a3)
        (= (token-era a1) 10) (= (token-era a2) 11) (= (token-era a3) 13))";
    run.ends(in_order);
    run.obligations
}

/// Nodes 1 and 2 grant the same.
const FIRST_LEASE: &str = "
begin | A a1
acquire | A a1, N n1
acquire | A a1, N n2
answer again | A a1, N n2
choose | A a1, Q f12, E 10, C 1, N n1, M m1, qm (memory n), qe 10, qc 1
win | A a1, Q f12, qm (memory n)
vanish | A a1, N n1
heal | A a1, N n1
vanish | A a1, N n1
vanish | A a1, N n2
";

/// Node 1 comes back empty; nodes 2 and 3 tell and promise.
const NODE_FORGETS: &str = "
forget | N n1, M m5, E 0, R 0, C 0, held false
prepare | X x1
read | X x1, N n2
read | X x1, N n3
aim | X x1, Q f23, E 11, qv 10
reserve | N n2, E 11
reserve | N n3, E 11
confirm | X x1, Q f23, E 11
activate | X x1, N n1, E 11
";

const TWO_MORE: &str = "
# Node 1 grants in the new era, node 2 in the old one, and is sent a publish.
begin | A a2
acquire | A a2, N n2
acquire | A a2, N n1
choose | A a2, Q f12, E 11, C 1, N n1, M m5, qm (memory n), qe (era n), qc (count n)
publish | A a2, N n2, M m2, E 10, C 2
win | A a2, Q f12, qm (memory n)
other resource | N n3, H f, E 11
# From nodes 1, 2, 3 to nodes 2, 3, 4. Nodes 2 and 3 are sealed and tell what is written; node 1 is not asked.
seal | X x2, N n2, E 0
seal | X x2, N n3, E 0
moment | X x2, Q f23, E 12, qm (memory n), qv 11
seal again | X x2, N n2, E 12
survey | X x2, R g23, E 13
reserve | N n3, E 13
reserve | N n4, E 13
promise | X x2, Q g34
start | X x2, N n2
start | X x2, N n3
# The lock of the second lease is still on node 2; nodes 3 and 4 grant.
start | X x2, N n4
begin | A a3
acquire | A a3, N n3
acquire | A a3, N n4
choose | A a3, Q g34, E 13, C 1, N n3, M m3, qm (memory n), qe 13, qc 1
win | A a3, Q g34, qm (memory n)
";
