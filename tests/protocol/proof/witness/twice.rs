//! Why an era that is written on a node must not be used by another start of `g`: two movers
//! read the same at the sealed majority, take the same era, and one node forgets.

use super::run::Run;
use crate::proof::obligation::Obligation;
use crate::proof::steps;

/// A run in which one token is won twice, though no more than one node of g ever forgot.
pub fn token_twice() -> Vec<Obligation> {
    let mut run = Run::new();
    two_movers(&mut run);
    first_start(&mut run);
    node_forgets(&mut run);
    second_start(&mut run);
    both_win(&mut run);
    run.ends(
        "token-twice",
        "(and (won a3) (won a4) (= (token-era a3) (token-era a4))
              (= (token-count a3) (token-count a4)))",
    );
    run.obligations
}

/// Both find the same majority sealed, and the same written there.
fn two_movers(run: &mut Run) {
    for mover in ["x2", "x3"] {
        let first = if mover == "x2" { "seal" } else { "seal again" };
        run.step(first, &format!("X {mover}, N n2, E 0"));
        run.step(first, &format!("X {mover}, N n3, E 0"));
    }
    for mover in ["x2", "x3"] {
        run.step("moment", &format!("X {mover}, Q f23, E 11, qm (memory n), qv 10"));
    }
}

/// One mover starts node 4 and dies. Node 4 grants.
fn first_start(run: &mut Run) {
    run.step("survey", "X x2, R g23, E 11");
    for node in ["n2", "n3", "n4"] {
        run.step("reserve", &format!("N {node}, E 11"));
    }
    run.step("promise", "X x2, Q g34");
    run.step("start", "X x2, N n4");
    run.step("begin", "A a3");
    run.step("acquire", "A a3, N n4");
}

/// A minority of g.
fn node_forgets(run: &mut Run) {
    run.step("forget", "N n4, M m6, E 0, R 0, C 0, held false");
}

/// The other mover finds its own era promised, and goes on.
fn second_start(run: &mut Run) {
    // The rule that the era is above what is written allows for what is reserved.
    let above = "(=> (member n (under X)) (or (> E (written n)) (= E (reserved n))))";
    run.take(&steps::step("survey").weaker("above", "n Node", above), "X x3, R g23, E 11");
    run.step("reserve", "N n4, E 11");
    for node in ["n2", "n3", "n4"] {
        run.step("start", &format!("X x3, N {node}"));
    }
}

/// One with node 4 as it is, the other with the grant of node 4 as it was.
fn both_win(run: &mut Run) {
    let grants = "qe 11, qc 1";
    run.step("begin", "A a4");
    run.step("acquire", "A a4, N n4");
    run.step("acquire", "A a4, N n2");
    run.step("choose", &format!("A a4, Q g24, E 11, C 1, N n4, M m6, qm (memory n), {grants}"));
    run.step("win", "A a4, Q g24, qm (memory n)");
    run.step("acquire", "A a3, N n3");
    let memories = "qm (ite (= n n4) m4 m3)";
    run.step("choose", &format!("A a3, Q g34, E 11, C 1, N n4, M m4, {memories}, {grants}"));
    run.step("win", &format!("A a3, Q g34, {memories}"));
}
