//! What befalls a node.

use super::{Change, Step, add, rule, set};
use crate::proof::fact::fact;

pub fn steps() -> Vec<Step> {
    vec![vanish(), forget(), other_resource(), use_up()]
}

/// `Store::release`, `Store::expire_lock`, `Store::expire_owner`: a lock, or a part in one, goes, at any
/// time and for any reason.
fn vanish() -> Step {
    Step {
        name: "vanish",
        params: "A Attempt, N Node",
        rules: vec![],
        changes: vec![set("lock", "n Node, a Attempt", "(and (= n N) (= a A))", "false")],
    }
}

/// `Store::forget`, a restart, a flush, an older copy: the node comes back with any locks,
/// counts and eras at all, in a new memory, and in no fleet.
fn forget() -> Step {
    let any = |word, value| set(word, "n Node", "(= n N)", value);
    Step {
        name: "forget",
        params: "N Node, M Memory, E Era, R Era, C Count, held Attempt>Bool",
        rules: vec![
            rule("memory is new", "(and (not (used M)) (= (owner M) N))"),
            fact(
                "one lock",
                "a Attempt, b Attempt",
                "(=> (and (held a) (held b)) (or (= a b) (and (shared a) (shared b))))",
            ),
        ],
        changes: vec![
            set("admitted", "n Node, h Fleet", "(= n N)", "false"),
            any("sealed", "false"),
            any("memory", "M"),
            any("era", "E"),
            any("reserved", "R"),
            any("count", "C"),
            set("lock", "n Node, a Attempt", "(= n N)", "(held a)"),
            add("used", "m Memory", "(= m M)"),
            add(
                "earlier",
                "m Memory, k Memory",
                "(and (= k M) (or (= m (memory N)) (earlier m (memory N))))",
            ),
            set("past", "m Memory, e Era", "(= m M)", "(promised e)"),
            Change {
                word: "late",
                vars: "m Memory",
                body: "(ite (= m M) moment (late m))".to_owned(),
            },
        ],
    }
}

/// `Store::publish` for another resource, or a part in its lock that is set again: the era grows to
/// one of the same fleet, and the count of this resource is dropped with the era that it was of.
fn other_resource() -> Step {
    Step {
        name: "other resource",
        params: "N Node, H Fleet, E Era",
        rules: vec![
            rule("admitted", "(admitted N H)"),
            rule("promised", "(and (promised E) (= (of (promisers E)) H))"),
            rule("larger", "(> E (era N))"),
        ],
        changes: vec![set("era", "n Node", "(= n N)", "E"), set("count", "n Node", "(= n N)", "0")],
    }
}

/// `force.lua`, where an operator has taken the lock away: the count grows to any larger one. The lock vanishes in a step
/// before this one; in a larger era the step is the one above, and then this one. The script raises no count where
/// somebody else holds the lock alone. Order does not need that: there, nobody else could publish.
fn use_up() -> Step {
    Step {
        name: "use up",
        params: "N Node, C Count",
        rules: vec![rule("larger", "(> C (count N))")],
        changes: vec![set("count", "n Node", "(= n N)", "C")],
    }
}
