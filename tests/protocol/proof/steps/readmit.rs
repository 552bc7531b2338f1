//! A re-admission or a collection: `protocol/src/readmit.rs`, phase by phase.

use super::{Change, Step, add, rule, set};
use crate::proof::fact::fact;

pub fn steps() -> Vec<Step> {
    vec![prepare(), read(), aim(), reserve(), confirm(), activate()]
}

/// `Readmit::prepared`: the target has marked its memory.
fn prepare() -> Step {
    Step {
        name: "prepare",
        params: "X Client",
        rules: vec![rule("once", "(not (prepared X))")],
        changes: vec![
            add("prepared", "x Client", "(= x X)"),
            set("stretch", "x Client", "(= x X)", "(memory (target X))"),
        ],
    }
}

/// `Request::Read`: a node that is admitted under the client's fleet tells what is written.
fn read() -> Step {
    Step {
        name: "read",
        params: "X Client, N Node",
        rules: vec![rule("prepared", "(prepared X)"), rule("admitted", "(admitted N (under X))")],
        changes: vec![add(
            "told",
            "x Client, n Node, v Era",
            "(and (= x X) (= n N) (= v (written N)))",
        )],
    }
}

/// `Request::Reserve`, at any node: a promise harms nobody. Whose promise counts is the
/// matter of those who ask for it.
fn reserve() -> Step {
    Step {
        name: "reserve",
        params: "N Node, E Era",
        rules: vec![],
        changes: vec![raise_reserved("E")],
    }
}

/// `Readmit::read`: a majority told, and the era is larger than what it told.
fn aim() -> Step {
    Step {
        name: "aim",
        params: "X Client, Q Quorum, E Era, qv Node>Era",
        rules: vec![
            rule("majority", "(= (of Q) (under X))"),
            fact("read", "n Node", "(=> (in n Q) (told X n (qv n)))"),
            fact("above", "n Node", "(=> (in n Q) (> E (qv n)))"),
        ],
        changes: vec![add("aims", "x Client, e Era", "(and (= x X) (= e E))")],
    }
}

/// `Readmit::confirmed`: a majority answered the promise and, asked once more, is admitted
/// in the same memory. So at the moment when the second round began it held the promise.
fn confirm() -> Step {
    Step {
        name: "confirm",
        params: "X Client, Q Quorum, E Era",
        rules: vec![
            rule("aims", "(aims X E)"),
            rule("majority", "(= (of Q) (under X))"),
            fact("held", "n Node", "(=> (in n Q) (and (admitted n (under X)) (>= (written n) E)))"),
            rule("first", "(not (promised E))"),
        ],
        changes: vec![
            add("promised", "e Era", "(= e E)"),
            set("promisers", "e Era", "(= e E)", "Q"),
        ],
    }
}

/// `Store::activate` for a re-admission or a collection: in the memory that was prepared,
/// and only when a majority has promised the era.
fn activate() -> Step {
    Step {
        name: "activate",
        params: "X Client, N Node, E Era",
        rules: vec![
            rule("aims", "(and (aims X E) (= (target X) N))"),
            rule("promised", "(and (promised E) (= (of (promisers E)) (under X)))"),
            rule("nonce", "(= (stretch X) (memory N))"),
            rule("fleet", "(not (admitted N (other (under X))))"),
            rule("seal", "(=> (sealed N) (= (under X) g))"),
            rule("grows", "(> E (era N))"),
        ],
        changes: activated("(under X)", "E"),
    }
}

/// What is promised is the largest era that was asked for.
pub fn raise_reserved(era: &str) -> Change {
    let larger = format!("(ite (> {era} (reserved N)) {era} (reserved N))");
    set("reserved", "n Node", "(= n N)", &larger)
}

/// `Store::activate`: the node `N` is admitted under the fleet, in the era, without counts.
pub fn activated(fleet: &str, era: &str) -> Vec<Change> {
    vec![
        set("admitted", "n Node, h Fleet", "(= n N)", &format!("(= h {fleet})")),
        set("sealed", "n Node", "(= n N)", "false"),
        set("era", "n Node", "(= n N)", era),
        set("count", "n Node", "(= n N)", "0"),
        raise_reserved(era),
    ]
}
