//! What holds at every moment.
//!
//! Order itself is not among it: [`order`](crate::proof::order) derives it.

mod eras;
mod grants;
mod memory;
mod moving;
mod sharers;

use crate::proof::fact::{Fact, fact};

/// One part of the invariant.
#[derive(Clone)]
pub struct Conjunct {
    pub fact: Fact,
    /// What it rests on, in the state before a step, besides itself.
    pub because: &'static [&'static str],
}

fn holds(
    name: &'static str,
    vars: &'static str,
    body: &'static str,
    because: &'static [&'static str],
) -> Conjunct {
    Conjunct { fact: fact(name, vars, body), because }
}

/// All conjuncts.
pub fn invariant() -> Vec<Conjunct> {
    let facts =
        [memory::facts(), eras::facts(), grants::facts(), sharers::facts(), moving::facts()];
    facts.concat()
}

/// The conjuncts of these names.
pub fn named(names: &[&str]) -> Vec<Fact> {
    let all = invariant();
    let find = |name: &&str| all.iter().find(|part| part.fact.name == *name);
    let found = |name: &&str| find(name).unwrap_or_else(|| panic!("no conjunct {name}"));
    names.iter().map(|name| found(name).fact.clone()).collect()
}
