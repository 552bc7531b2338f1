//! Runs with leases that share a lock: `s1`, `s2`. The others are alone.

use super::NODE_FORGETS;
use super::run::Run;
use crate::proof::obligation::Obligation;

/// What the nodes have granted as they are now.
const NOW: &str = "qm (memory n), qe (era n), qc (count n)";

/// Two runs in which leases are won in order, some of which share the lock.
pub fn sharers() -> Vec<Obligation> {
    let runs = [between_two_alone(), after_a_node_forgot()];
    runs.into_iter().flat_map(|run| run.obligations).collect()
}

/// One that is alone, two that share, one that is alone. A part that is missing is set again on nodes 1 and 3.
fn between_two_alone() -> Run {
    let mut run = Run::new();
    alone(&mut run, "a1", "E 10, C 1, N n1, M m1");
    leave(&mut run, &["a1"]);
    begins(&mut run, "s1");
    begins(&mut run, "s2");
    for node in ["n1", "n2"] {
        run.step("acquire", &format!("A s1, N {node}"));
        run.step("join", &format!("A s2, N {node}, B s1"));
    }
    wins(&mut run, "s1", "E 10, C 2, N n1, M m1");
    wins(&mut run, "s2", "E 10, C 2, N n1, M m1");
    run.step("vanish", "A s1, N n1");
    run.step("heal part", "A s1, N n1, E 10, C 2");
    run.step("heal part", "A s1, N n3, E 10, C 2");
    leave(&mut run, &["s1", "s2"]);
    alone(&mut run, "a2", "E 10, C 3, N n1, M m1");
    let in_order = "(and (before a1 s1) (before a1 s2) (before s1 a2) (before s2 a2) (won a2)
        (= 10 (token-era a1) (token-era s1) (token-era s2) (token-era a2))
        (= (token-count a1) 1) (= 2 (token-count s1) (token-count s2)) (= (token-count a2) 3))";
    run.ends(in_order);
    run
}

/// On node 1, which forgot, nothing is counted: who shares is counted beside a part there. Node 2 is sent a publish.
fn after_a_node_forgot() -> Run {
    let mut run = Run::new();
    begins(&mut run, "s1");
    run.step("acquire", "A s1, N n1");
    run.step("acquire", "A s1, N n2");
    wins(&mut run, "s1", "E 10, C 1, N n1, M m1");
    run.steps(NODE_FORGETS);
    run.step("heal part", "A s1, N n1, E 11, C 0");
    begins(&mut run, "s2");
    run.step("acquire", "A s2, N n1");
    run.step("join", "A s2, N n2, B s1");
    run.step("choose", &format!("A s2, Q f12, E 11, C 1, N n1, M m5, {NOW}"));
    run.step("publish", "A s2, N n2, M m2, E 10, C 1");
    run.step("win", "A s2, Q f12, qm (memory n)");
    leave(&mut run, &["s1", "s2"]);
    alone(&mut run, "a1", "E 11, C 2, N n1, M m5");
    let in_order = "(and (before s1 s2) (before s2 a1) (won a1) (= (token-era s1) 10)
        (= 11 (token-era s2) (token-era a1)) (= 1 (token-count s1) (token-count s2)) (= (token-count a1) 2))";
    run.ends(in_order);
    run
}

fn begins(run: &mut Run, attempt: &str) {
    run.step("begin", &format!("A {attempt}"));
}

/// Nodes 1 and 2 grant the same token to one that is alone.
fn alone(run: &mut Run, attempt: &str, token: &str) {
    begins(run, attempt);
    run.step("acquire", &format!("A {attempt}, N n1"));
    run.step("acquire", &format!("A {attempt}, N n2"));
    wins(run, attempt, token);
}

/// Nodes 1 and 2 have granted the same.
fn wins(run: &mut Run, attempt: &str, token: &str) {
    run.step("choose", &format!("A {attempt}, Q f12, {token}, {NOW}"));
    run.step("win", &format!("A {attempt}, Q f12, qm (memory n)"));
}

fn leave(run: &mut Run, attempts: &[&str]) {
    for attempt in attempts {
        run.step("vanish", &format!("A {attempt}, N n1"));
        run.step("vanish", &format!("A {attempt}, N n2"));
    }
}
