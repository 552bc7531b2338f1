//! SMT-LIB text for the solver: the language, the hypotheses, what is denied.

use std::fmt::Write;

use crate::proof::fact::{Fact, binders, closed};
use crate::proof::steps::Step;
use crate::proof::words::{self, DERIVED, Derived, FIXED, SORTS, STATE, TOKENS, Word};

/// Two majorities of one fleet share a node, and their nodes are members of it.
const MAJORITIES: &str = "\
(assert (forall ((n Node) (q Quorum)) (=> (in n q) (member n (of q)))))
(assert (forall ((q Quorum) (r Quorum)) (! (=> (= (of q) (of r))
    (and (in (meet q r) q) (in (meet q r) r))) :pattern ((of q) (of r)))))
";

/// Sorts, words, and what is always true of majorities.
pub fn language() -> String {
    let mut text = String::from("(declare-datatypes () ((Fleet f g)))\n");
    for sort in SORTS {
        writeln!(text, "(declare-sort {sort} 0)").unwrap();
    }
    text += "(define-sort Era () Int)\n(define-sort Count () Int)\n";
    text += "(define-fun other ((h Fleet)) Fleet (ite (= h f) g f))\n";
    FIXED.iter().chain(STATE).for_each(|word| declare(&mut text, word));
    text += TOKENS;
    DERIVED.iter().for_each(|derived| define(&mut text, derived.name, derived, derived.body));
    text + MAJORITIES
}

fn declare(text: &mut String, Word { name, takes, gives }: &Word) {
    writeln!(text, "(declare-fun {name} ({}) {gives})", takes.join(" ")).unwrap();
}

fn define(text: &mut String, name: &str, derived: &Derived, body: &str) {
    let vars = binders(derived.takes);
    writeln!(text, "(define-fun {name} {vars} {} {body})", derived.gives).unwrap();
}

pub fn assert(text: &mut String, facts: &[Fact]) {
    for fact in facts {
        writeln!(text, "(assert {})", closed(fact.vars, fact.body)).unwrap();
    }
}

/// Denies the fact, in the state after a change of these words.
pub fn deny(fact: &Fact, changed: &[&str]) -> String {
    format!("(assert (not {}))\n", closed(fact.vars, &words::next(fact.body, changed)))
}

/// What the step needs, and the words as they are after it.
pub fn taken(text: &mut String, step: &Step) {
    *text += &step.declarations();
    assert(text, &step.rules);
    let changed = step.changed();
    for change in &step.changes {
        let word = STATE.iter().find(|word| word.name == change.word);
        let word = word.unwrap_or_else(|| panic!("{} changes no word {}", step.name, change.word));
        *text += &change.definition(word.gives);
    }
    for derived in DERIVED.iter().filter(|d| words::mentions(d.body, &changed)) {
        let body = words::next(derived.body, &changed);
        define(text, &words::after(derived.name), derived, &body);
    }
}
