//! Properties, and runs of stateright.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use crate::model::lists::{self, Lists, Step};
use crate::model::state::{State, Vote};
use crate::model::world::{Action, World};

impl<const N: usize, const C: usize, const R: usize> Model for World<N, C, R> {
    type State = State<N, C, R>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<N, C, R>> {
        vec![self.canonical(self.first())]
    }

    fn actions(&self, state: &State<N, C, R>, actions: &mut Vec<Action>) {
        self.candidates(state, actions);
    }

    fn next_state(&self, state: &State<N, C, R>, action: Action) -> Option<State<N, C, R>> {
        self.step(state, action).map(|state| self.canonical(state))
    }

    fn properties(&self) -> Vec<Property<World<N, C, R>>> {
        if C == 0 {
            // Nobody locks anything: re-admissions alone.
            return vec![
                Property::<Self>::always("a majority never misses an era", |world, state| !world.is_forgettable(state)),
                Property::<Self>::sometimes("all are back", |world, state| {
                    state.budget.losses == 0 && state.nodes.iter().all(|node| world.is_admitted(*node))
                }),
            ];
        }
        let mut properties = vec![
            Property::<Self>::always("I1: no token twice", |world, state| state.unique(&world.seam)),
            Property::<Self>::always("I2: larger than what was returned", |_, state| state.ordered()),
            Property::<Self>::sometimes("a lease is granted", |_, state| state.highest() > 0),
            Property::<Self>::sometimes("two leases in order", |_, state| state.in_order()),
            Property::<Self>::sometimes("a publish was needed", |_, state| {
                state.clients.iter().any(|c| c.slots.iter().any(|slot| slot.publish != 0))
            }),
        ];
        if R > 0 {
            properties.push(Property::<Self>::sometimes("a re-admission happened", |_, state| {
                state.orders.iter().any(|order| order.done)
            }));
        }
        if self.budget.losses + self.budget.collections > 0 && R > 0 {
            properties.push(Property::<Self>::sometimes("an era grew", |_, state| {
                state.clients.iter().any(|client| client.token >= 2_000_000)
            }));
        }
        // Only where nobody forgot the successor: see docs/assurance/reliability.md.
        if self.prompt {
            properties
                .push(Property::<Self>::always("a followed lease stays lost", |world, state| !world.revived(state)));
        }
        if self.budget.renewals && self.budget.losses > 0 && R > 0 {
            properties.push(Property::<Self>::sometimes("a renewal healed a node", |_, state| {
                let mut slots = state.clients.iter().flat_map(|client| client.slots);
                slots.any(|slot| slot.renewal == Vote::Healed)
            }));
        }
        properties
    }
}

pub fn run<const N: usize, const C: usize, const R: usize>(name: &str, world: World<N, C, R>, limit: Option<usize>) {
    search(&format!("{name}: N = {N}, {C} attempts, {R} re-admissions"), world, limit);
}

/// Searches until nothing is left, or until about `limit` states have been generated, and
/// prints what it did. Fails on a violation, and if it saw too little to mean anything.
pub fn search<W>(name: &str, world: W, limit: Option<usize>)
where
    W: Model + Send + Sync + 'static,
    W::State: Clone + Hash + PartialEq + Debug + Send + Sync + 'static,
    W::Action: Clone + PartialEq + Debug + Send + Sync + 'static,
{
    let started = Instant::now();
    // One thread visits the states in the same order each time: what is seen before the limit does not depend on luck.
    let threads = if limit.is_some() { 1 } else { 2 };
    let mut builder = world.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    if let Some(limit) = limit {
        builder = builder.target_state_count(limit);
    }
    let checker = builder.spawn_bfs().join();
    let (states, unique) = (checker.state_count(), checker.unique_state_count());
    let extent = if limit.is_some_and(|limit| states >= limit) { "cut off" } else { "complete" };
    println!(
        "{name}, {extent}: {states} states, {unique} unique, depth {}, {:.1} s",
        checker.max_depth(),
        started.elapsed().as_secs_f64(),
    );
    let found = checker.discoveries();
    for property in checker.model().properties() {
        let path = found.get(property.name).cloned().map(|path| path.into_actions());
        let steps = path.as_ref().map(Vec::len);
        println!("  {:?} {}: {steps:?} steps", property.expectation, property.name);
        match property.expectation {
            Expectation::Always => {
                assert!(path.is_none(), "{} is broken by {path:#?}", property.name);
            }
            _ => assert!(path.is_some(), "never seen: {}", property.name),
        }
    }
}

impl<const Z: usize, const M: usize> Model for Lists<Z, M> {
    type State = lists::State<Z, M>;
    type Action = Step;

    fn init_states(&self) -> Vec<lists::State<Z, M>> {
        vec![self.first()]
    }

    fn actions(&self, state: &lists::State<Z, M>, steps: &mut Vec<Step>) {
        self.candidates(state, steps);
    }

    fn next_state(&self, before: &lists::State<Z, M>, step: Step) -> Option<lists::State<Z, M>> {
        self.step(before, step)
    }

    fn properties(&self) -> Vec<Property<Lists<Z, M>>> {
        vec![
            Property::<Self>::always("no era twice on a node", |_, state| !state.again),
            Property::<Self>::always("one list votes", |world, state| !world.both_vote(state)),
            Property::<Self>::sometimes("the new list votes", |world, state| {
                world.votes(state, 1) == world.seam.lists[1].len()
            }),
            Property::<Self>::sometimes("a loss is made good", |world, state| {
                state.losses < world.losses && state.nodes.iter().all(|node| !node.lost)
            }),
        ]
    }
}
