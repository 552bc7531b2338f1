//! The mover seals `f`.

use super::readmit::raise_reserved;
use super::{Change, Step, add, rule, set};
use crate::proof::fact::fact;

pub fn steps() -> Vec<Step> {
    vec![seal(), seal_again(), moment()]
}

/// `Store::seal` of a node that is admitted under f: it leaves f, and answers.
fn seal() -> Step {
    Step {
        name: "seal",
        params: "X Client, N Node, E Era",
        rules: vec![rule("admitted", "(admitted N f)")],
        changes: vec![
            set("admitted", "n Node, h Fleet", "(= n N)", "false"),
            set("sealed", "n Node", "(= n N)", "true"),
            raise_reserved("E"),
            answer(),
        ],
    }
}

/// `Store::seal` of a node that is sealed, or that has left f for g already.
fn seal_again() -> Step {
    Step {
        name: "seal again",
        params: "X Client, N Node, E Era",
        rules: vec![rule("has left", "(or (sealed N) (admitted N g))")],
        changes: vec![raise_reserved("E"), answer()],
    }
}

/// The answer: the nonce, and what was written when the request came. (The promise that
/// comes with the request is above it; the answer may tell the larger one.)
fn answer() -> Change {
    add(
        "answered",
        "x Client, n Node, m Memory, v Era",
        "(and (= x X) (= n N) (= m (memory N)) (>= v (written N)))",
    )
}

/// The mover's second round: a majority of f answers in the memory in which it answered
/// first. So at the moment when this round began it was sealed; the floor is above what it
/// told.
fn moment() -> Step {
    Step {
        name: "moment",
        params: "X Client, Q Quorum, E Era, qm Node>Memory, qv Node>Era",
        rules: vec![
            rule("majority", "(= (of Q) f)"),
            fact("answered", "n Node", "(=> (in n Q) (answered X n (qm n) (qv n)))"),
            fact("held", "n Node", "(=> (in n Q) (= (qm n) (memory n)))"),
            fact("above", "n Node", "(=> (in n Q) (> E (qv n)))"),
        ],
        changes: vec![
            Change { word: "moment", vars: "", body: "true".to_owned() },
            Change { word: "sealers", vars: "", body: "(ite moment sealers Q)".to_owned() },
            add("floored", "x Client", "(= x X)"),
            set("floor", "x Client", "(= x X)", "E"),
        ],
    }
}
