//! Runs with leases that share a lock: `s1`, `s2`. The others are alone.

use super::run::Run;
use crate::proof::obligation::Obligation;
use crate::proof::steps;

/// What the nodes have granted as they are now.
const NOW: &str = "qm (memory n), qe (era n), qc (count n)";

/// Two runs in which leases are won in order, some of which share the lock.
pub fn sharers() -> Vec<Obligation> {
    let runs = [between_two_alone(), after_a_node_forgot()];
    runs.into_iter().flat_map(|run| run.obligations).collect()
}

/// One that is alone, two that share, one that is alone. A part that is missing is set again on
/// nodes 1 and 3.
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
    run.ends(
        "in-order",
        "(and (before a1 s1) (before a1 s2) (before s1 a2) (before s2 a2) (won a2)
              (= 10 (token-era a1) (token-era s1) (token-era s2) (token-era a2))
              (= (token-count a1) 1) (= 2 (token-count s1) (token-count s2))
              (= (token-count a2) 3))",
    );
    run
}

/// On node 1, which forgot, nothing has been counted: who shares is counted beside a part there. Node
/// 2 is sent a publish.
fn after_a_node_forgot() -> Run {
    let mut run = Run::new();
    begins(&mut run, "s1");
    run.step("acquire", "A s1, N n1");
    run.step("acquire", "A s1, N n2");
    wins(&mut run, "s1", "E 10, C 1, N n1, M m1");
    super::node_forgets(&mut run);
    run.step("heal part", "A s1, N n1, E 11, C 0");
    begins(&mut run, "s2");
    run.step("acquire", "A s2, N n1");
    run.step("join", "A s2, N n2, B s1");
    run.step("choose", &format!("A s2, Q f12, E 11, C 1, N n1, M m5, {NOW}"));
    run.step("publish", "A s2, N n2, M m2, E 10, C 1");
    run.step("win", "A s2, Q f12, qm (memory n)");
    leave(&mut run, &["s1", "s2"]);
    alone(&mut run, "a1", "E 11, C 2, N n1, M m5");
    run.ends(
        "in-order",
        "(and (before s1 s2) (before s2 a1) (won a1) (= (token-era s1) 10)
              (= 11 (token-era s2) (token-era a1)) (= 1 (token-count s1) (token-count s2))
              (= (token-count a1) 2))",
    );
    run
}

/// One that shares began after one that was alone had won, and has the same token.
const LATER_IS_EQUAL: &str = "(and (before a1 s1) (won s1) (= (token-era a1) (token-era s1))
      (= (token-count a1) (token-count s1)))";

/// Runs in which a rule is left out, and one token is won alone and by one that shares.
pub fn careless() -> Vec<Obligation> {
    let parts = [first_is_not_counted(), alone_beside_parts(), part_does_not_raise()];
    let runs = parts.into_iter().chain([first_in_the_era_is_not_counted()]);
    runs.flat_map(|run| run.obligations).collect()
}

/// The first that shares the lock is let in as those who join others are.
fn first_is_not_counted() -> Run {
    let mut run = Run::new();
    let join = steps::step("join").weaker("others", "", "true");
    alone(&mut run, "a1", "E 10, C 1, N n1, M m1");
    leave(&mut run, &["a1"]);
    begins(&mut run, "s1");
    for node in ["n1", "n2"] {
        run.take(&join, &format!("A s1, N {node}, B s1"));
    }
    wins(&mut run, "s1", "E 10, C 1, N n1, M m1");
    run.ends("first-is-not-counted", LATER_IS_EQUAL);
    run
}

/// One that is alone is granted the lock beside one that shares it. The next one joins that.
fn alone_beside_parts() -> Run {
    let mut run = Run::new();
    let acquire = steps::step("acquire").weaker("free", "a Attempt", "(=> (lock N a) (shared a))");
    begins(&mut run, "s2");
    begins(&mut run, "a1");
    for node in ["n1", "n2"] {
        run.step("acquire", &format!("A s2, N {node}"));
        run.take(&acquire, &format!("A a1, N {node}"));
    }
    wins(&mut run, "a1", "E 10, C 2, N n1, M m1");
    leave(&mut run, &["a1"]);
    begins(&mut run, "s1");
    for node in ["n1", "n2"] {
        run.step("join", &format!("A s1, N {node}, B s2"));
    }
    wins(&mut run, "s1", "E 10, C 2, N n1, M m1");
    run.ends("alone-beside-parts", LATER_IS_EQUAL);
    run
}

/// A part is set again, and the count is not raised: the schedule in ADR 27.
fn part_does_not_raise() -> Run {
    let mut run = Run::new();
    let heal = steps::step("heal part").weaker("raised", "", "(and (= E (era N)) (= C (count N)))");
    alone(&mut run, "a1", "E 10, C 1, N n1, M m1");
    begins(&mut run, "s1");
    run.step("acquire", "A s1, N n3");
    run.step("vanish", "A a1, N n2");
    begins(&mut run, "s2");
    run.step("acquire", "A s2, N n2");
    run.step("join", "A s2, N n3, B s1");
    run.step("choose", &format!("A s2, Q f23, E 10, C 2, N n2, M m2, {NOW}"));
    run.step("publish", "A s2, N n3, M m3, E 10, C 1");
    run.step("win", "A s2, Q f23, qm (memory n)");
    run.step("vanish", "A a1, N n1");
    run.take(&heal, "A s2, N n1, E 10, C 1");
    run.step("join", "A s1, N n1, B s2");
    let grants = "qm (memory n), qe 10, qc 1";
    run.step("choose", &format!("A s1, Q f13, E 10, C 1, N n1, M m1, {grants}"));
    run.step("win", "A s1, Q f13, qm (memory n)");
    run.ends("part-does-not-raise", LATER_IS_EQUAL);
    run
}

/// Whoever joins is let in without a count, also where nothing has been counted in the era. The
/// token of the one that is alone has no count either: its requests were repeated after another
/// resource had raised the era.
fn first_in_the_era_is_not_counted() -> Run {
    let mut run = Run::new();
    let join = steps::step("join").weaker("counted", "", "true");
    begins(&mut run, "s2");
    run.step("acquire", "A s2, N n1");
    run.step("acquire", "A s2, N n2");
    wins(&mut run, "s2", "E 10, C 1, N n1, M m1");
    leave(&mut run, &["s2"]);
    super::node_forgets(&mut run);
    begins(&mut run, "a1");
    for node in ["n2", "n3"] {
        run.step("acquire", &format!("A a1, N {node}"));
        run.step("other resource", &format!("N {node}, H f, E 11"));
        run.step("answer again", &format!("A a1, N {node}"));
    }
    run.step("choose", &format!("A a1, Q f23, E 11, C 0, N n2, M m2, {NOW}"));
    run.step("win", "A a1, Q f23, qm (memory n)");
    begins(&mut run, "s1");
    for node in ["n2", "n3"] {
        run.step("vanish", &format!("A a1, N {node}"));
        run.step("heal part", &format!("A s2, N {node}, E 11, C 0"));
        run.take(&join, &format!("A s1, N {node}, B s2"));
    }
    run.step("choose", &format!("A s1, Q f23, E 11, C 0, N n2, M m2, {NOW}"));
    run.step("win", "A s1, Q f23, qm (memory n)");
    run.ends("first-in-the-era-is-not-counted", LATER_IS_EQUAL);
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

/// They leave nodes 1 and 2.
fn leave(run: &mut Run, attempts: &[&str]) {
    for attempt in attempts {
        run.step("vanish", &format!("A {attempt}, N n1"));
        run.step("vanish", &format!("A {attempt}, N n2"));
    }
}
