//! The invariant is not empty talk: a run of a small world, step by step, in which three
//! leases are won in order, one after a node forgot and one after the move. Other runs are of those
//! who share a lock.

mod run;
mod sharing;

pub use sharing::sharers;

use crate::proof::obligation::Obligation;
use run::Run;

/// Every rule of every step of the run, and what is seen at its end.
pub fn obligations() -> Vec<Obligation> {
    let mut run = Run::new();
    first_lease(&mut run);
    node_forgets(&mut run);
    second_lease(&mut run);
    fleet_moves(&mut run);
    third_lease(&mut run);
    run.ends(
        "in-order",
        "(and (won a1) (won a2) (won a3) (before a1 a2) (before a2 a3)
              (= (token-era a1) 10) (= (token-era a2) 11) (= (token-era a3) 13))",
    );
    run.obligations
}

/// Nodes 1 and 2 grant the same.
fn first_lease(run: &mut Run) {
    run.step("begin", "A a1");
    run.step("acquire", "A a1, N n1");
    run.step("acquire", "A a1, N n2");
    run.step("answer again", "A a1, N n2");
    let grants = "qm (memory n), qe 10, qc 1";
    run.step("choose", &format!("A a1, Q f12, E 10, C 1, N n1, M m1, {grants}"));
    run.step("win", "A a1, Q f12, qm (memory n)");
    run.step("vanish", "A a1, N n1");
    run.step("heal", "A a1, N n1");
    run.step("vanish", "A a1, N n1");
    run.step("vanish", "A a1, N n2");
}

/// Node 1 comes back empty; nodes 2 and 3 tell and promise.
fn node_forgets(run: &mut Run) {
    run.step("forget", "N n1, M m5, E 0, R 0, C 0, held false");
    run.step("prepare", "X x1");
    run.step("read", "X x1, N n2");
    run.step("read", "X x1, N n3");
    run.step("aim", "X x1, Q f23, E 11, qv 10");
    run.step("reserve", "N n2, E 11");
    run.step("reserve", "N n3, E 11");
    run.step("confirm", "X x1, Q f23, E 11");
    run.step("activate", "X x1, N n1, E 11");
}

/// Node 1 grants in the new era, node 2 in the old one, and is sent a publish.
fn second_lease(run: &mut Run) {
    run.step("begin", "A a2");
    run.step("acquire", "A a2, N n2");
    run.step("acquire", "A a2, N n1");
    let grants = "qm (memory n), qe (era n), qc (count n)";
    run.step("choose", &format!("A a2, Q f12, E 11, C 1, N n1, M m5, {grants}"));
    run.step("publish", "A a2, N n2, M m2, E 10, C 2");
    run.step("win", "A a2, Q f12, qm (memory n)");
    run.step("other resource", "N n3, H f, E 11");
}

/// From nodes 1, 2, 3 to nodes 2, 3, 4.
fn fleet_moves(run: &mut Run) {
    seals(run);
    run.step("moment", "X x2, Q f23, E 12, qm (memory n), qv 11");
    run.step("seal again", "X x2, N n2, E 12");
    run.step("survey", "X x2, R g23, E 13");
    run.step("reserve", "N n3, E 13");
    run.step("reserve", "N n4, E 13");
    run.step("promise", "X x2, Q g34");
    run.step("start", "X x2, N n2");
    run.step("start", "X x2, N n3");
}

/// Nodes 2 and 3 are sealed and tell what is written; node 1 is not asked.
fn seals(run: &mut Run) {
    run.step("seal", "X x2, N n2, E 0");
    run.step("seal", "X x2, N n3, E 0");
}

/// The lock of the second lease is still on node 2; nodes 3 and 4 grant.
fn third_lease(run: &mut Run) {
    run.step("start", "X x2, N n4");
    run.step("begin", "A a3");
    run.step("acquire", "A a3, N n3");
    run.step("acquire", "A a3, N n4");
    let grants = "qm (memory n), qe 13, qc 1";
    run.step("choose", &format!("A a3, Q g34, E 13, C 1, N n3, M m3, {grants}"));
    run.step("win", "A a3, Q g34, qm (memory n)");
}
