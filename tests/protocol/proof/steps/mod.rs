//! What may happen: each step is one atomic thing that a node or a client does.

mod acquire;
mod moving;
mod node;
mod readmit;
mod start;

use crate::proof::fact::{Fact, binders, fact, pairs};

/// What a word is after a step, for all values of its variables.
#[derive(Clone)]
pub struct Change {
    pub word: &'static str,
    pub vars: &'static str,
    pub body: String,
}

/// One step: for some values of its parameters, where its rules hold, words change.
#[derive(Clone)]
pub struct Step {
    pub name: &'static str,
    /// `A Attempt, N Node`; a function that the step brings along is `v Node>Era`.
    pub params: &'static str,
    pub rules: Vec<Fact>,
    pub changes: Vec<Change>,
}

/// All steps.
pub fn steps() -> Vec<Step> {
    [acquire::steps(), node::steps(), readmit::steps(), moving::steps(), start::steps()].concat()
}

/// A rule: what must hold for the step to be taken.
fn rule(name: &'static str, body: &'static str) -> Fact {
    fact(name, "", body)
}

/// The arguments of a word: `a n` of `a Attempt, n Node`.
fn arguments(vars: &str) -> String {
    pairs(vars).iter().map(|(v, _)| *v).collect::<Vec<_>>().join(" ")
}

/// The word gets this value where the condition holds, and else keeps its own.
fn set(word: &'static str, vars: &'static str, at: &str, value: &str) -> Change {
    let body = format!("(ite {at} {value} ({word} {}))", arguments(vars));
    Change { word, vars, body }
}

/// The word becomes true where the condition holds too.
fn add(word: &'static str, vars: &'static str, at: &str) -> Change {
    let body = format!("(or ({word} {}) {at})", arguments(vars));
    Change { word, vars, body }
}

impl Step {
    /// The step without one of its rules; another may stand in its place.
    pub fn without(mut self, rule: &str, instead: Option<Fact>) -> Step {
        let at = self.rules.iter().position(|r| r.name == rule);
        let at = at.unwrap_or_else(|| panic!("{} has no rule {rule}", self.name));
        match instead {
            Some(weaker) => self.rules[at] = weaker,
            None => drop(self.rules.remove(at)),
        }
        self
    }

    /// The words that it changes.
    pub fn changed(&self) -> Vec<&'static str> {
        self.changes.iter().map(|change| change.word).collect()
    }

    /// Its parameters as SMT-LIB declares them.
    pub fn declarations(&self) -> String {
        let declare = |(name, sort): &(&str, &str)| match sort.split_once('>') {
            Some((takes, gives)) => format!("(declare-fun {name} ({takes}) {gives})\n"),
            None => format!("(declare-fun {name} () {sort})\n"),
        };
        pairs(self.params).iter().map(declare).collect()
    }
}

impl Change {
    /// The definition of the word after the step.
    pub fn definition(&self, gives: &str) -> String {
        let name = crate::proof::words::after(self.word);
        format!("(define-fun {name} {} {gives} {})\n", binders(self.vars), self.body)
    }
}
