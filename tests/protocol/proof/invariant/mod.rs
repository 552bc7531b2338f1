//! What holds at every moment.
//!
//! Order itself is not among it: [`obligation`](crate::proof::obligation) derives it.

mod eras;
mod grants;
mod moving;

use std::sync::LazyLock;

use crate::proof::fact::{Entry, Fact, entries, read};

pub struct Conjunct {
    pub fact: Fact,
    /// What it rests on, in the state before a step, besides itself.
    pub because: Vec<&'static str>,
}

/// Reads a table: the name and the variables of each conjunct, its body, and what it rests on.
pub fn conjuncts(table: &'static str) -> Vec<Conjunct> {
    let conjunct = |entry: Entry| {
        let (fact, because) = read(entry);
        let names = |line: &'static str| line.split(' ').skip_while(|word| *word == "because");
        Conjunct { fact, because: because.into_iter().flat_map(names).collect() }
    };
    entries(table).into_iter().map(conjunct).collect()
}

pub fn invariant() -> &'static [Conjunct] {
    static ALL: LazyLock<Vec<Conjunct>> = LazyLock::new(|| {
        let tables = [eras::FACTS, grants::FACTS, moving::FACTS];
        tables.into_iter().flat_map(conjuncts).collect()
    });
    &ALL
}

pub fn named(names: &[&str]) -> Vec<Fact> {
    let find = |name: &&str| invariant().iter().find(|part| part.fact.name == *name);
    let found = |name: &&str| find(name).unwrap_or_else(|| panic!("no conjunct {name}"));
    names.iter().map(|name| found(name).fact.clone()).collect()
}
