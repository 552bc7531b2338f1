//! What may happen: each step is one atomic thing that a node or a client does.
//!
//! A table has an entry for each: its name and parameters; `rule | name | variables | body` for what must hold;
//! and `add | word | variables | where it becomes true` or `set | word | variables | where | value` for what changes.

mod acquire;
mod node;

use std::sync::LazyLock;

use crate::proof::fact::{Entry, Fact, binders, entries, fact, pairs};

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

pub fn steps() -> &'static [Step] {
    static ALL: LazyLock<Vec<Step>> = LazyLock::new(|| {
        let tables = [acquire::STEPS, node::STEPS];
        tables.into_iter().flat_map(entries).map(Step::read).collect()
    });
    &ALL
}

pub fn step(name: &str) -> &'static Step {
    steps().iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step {name}"))
}

impl Step {
    /// Reads an entry of a table: the name and the parameters as its head, and the rules and changes.
    fn read((head, items): Entry) -> Step {
        let (name, params) = head.split_once(" | ").expect("parameters");
        let mut step = Step { name, params, rules: Vec::new(), changes: Vec::new() };
        for item in items {
            match item.split(" | ").collect::<Vec<_>>()[..] {
                ["rule", name, body] => step.rules.push(fact(name, "", body)),
                ["rule", name, vars, body] => step.rules.push(fact(name, vars, body)),
                ["is", word, body] => step.changes.push(Change { word, vars: "", body: body.to_owned() }),
                ["set", word, vars, at, value] => step.changes.push(set(word, vars, at, value)),
                ["add", word, vars, at] => step.changes.push(add(word, vars, at)),
                ["raise reserved", era] => step.changes.push(raise_reserved(era)),
                ["activated", fleet, era] => step.changes.extend(activated(fleet, era)),
                _ => panic!("{name}: {item}"),
            }
        }
        step
    }

    /// The step without one of its rules; another may stand in its place.
    pub fn without(&self, rule: &str, instead: Option<Fact>) -> Step {
        let mut step = self.clone();
        let at = self.rules.iter().position(|r| r.name == rule);
        let at = at.unwrap_or_else(|| panic!("{} has no rule {rule}", self.name));
        match instead {
            Some(weaker) => step.rules[at] = weaker,
            None => drop(step.rules.remove(at)),
        }
        step
    }

    pub fn changed(&self) -> Vec<&'static str> {
        self.changes.iter().map(|change| change.word).collect()
    }

    pub fn declarations(&self) -> String {
        let declare = |(name, sort): &(&str, &str)| match sort.split_once('>') {
            Some((takes, gives)) => format!("(declare-fun {name} ({takes}) {gives})\n"),
            None => format!("(declare-fun {name} () {sort})\n"),
        };
        pairs(self.params).iter().map(declare).collect()
    }
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

/// What is promised is the largest era that was asked for.
fn raise_reserved(era: &str) -> Change {
    let larger = format!("(ite (> {era} (reserved N)) {era} (reserved N))");
    set("reserved", "n Node", "(= n N)", &larger)
}

/// `Store::activate`: the node `N` is admitted under the fleet, in the era, without counts.
fn activated(fleet: &str, era: &str) -> Vec<Change> {
    vec![
        set("admitted", "n Node, h Fleet", "(= n N)", &format!("(= h {fleet})")),
        set("sealed", "n Node", "(= n N)", "false"),
        set("era", "n Node", "(= n N)", era),
        set("count", "n Node", "(= n N)", "0"),
        raise_reserved(era),
    ]
}

impl Change {
    pub fn definition(&self, gives: &str) -> String {
        let name = crate::proof::words::after(self.word);
        format!("(define-fun {name} {} {gives} {})\n", binders(self.vars), self.body)
    }
}
