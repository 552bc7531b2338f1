//! Every rule is needed: with any one left out the search finds a violation.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use rustc_hash::FxHashSet;
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use crate::model::cases::{Case, Visitor};
use crate::model::lists::Lists;
use crate::model::mutant::Mutant;
use crate::model::schedules::Schedule;
use crate::model::script::actions;
use crate::model::state::Budget;
use crate::model::world::{Action, World};

/// How a mutant died: what was broken, by which steps after those given.
struct Death<W: Model> {
    property: &'static str,
    steps: Vec<W::Action>,
    states: usize,
}

/// Breadth first, and done with the first state that breaks a promise: no schedule in that world is
/// shorter. (Checkers of stateright go on for a while, and keep what they find last.)
fn death<W: Model>(world: &W) -> Option<Death<W>>
where
    W::State: Clone + Hash,
    W::Action: Copy,
{
    let mut seen = FxHashSet::default();
    let always = promises(world);
    let hash = BuildHasherDefault::<DefaultHasher>::default();
    let mut is_new = |state: &W::State| seen.insert(hash.hash_one(state));
    let mut states = 1;
    // Where each state came from: the number of the one before, and the step.
    let mut origins: Vec<(usize, Option<W::Action>)> = Vec::new();
    let mut next: VecDeque<_> = world.init_states().into_iter().map(|it| (it, 0, None)).collect();
    while let Some((state, parent, step)) = next.pop_front() {
        let number = origins.len();
        origins.push((parent, step));
        if let Some(property) = broken(world, &always, &state) {
            let mut steps = Vec::new();
            let mut at = number;
            while let (parent, Some(step)) = origins[at] {
                steps.push(step);
                at = parent;
            }
            steps.reverse();
            return Some(Death { property, steps, states });
        }
        let mut steps = Vec::new();
        world.actions(&state, &mut steps);
        for step in steps {
            let after = world.next_state(&state, step).filter(|after| is_new(after));
            states += usize::from(after.is_some());
            next.extend(after.map(|after| (after, number, Some(step))));
        }
    }
    None
}

fn promises<W: Model>(world: &W) -> Vec<Property<W>> {
    let mut always = world.properties();
    always.retain(|property| property.expectation == Expectation::Always);
    always
}

fn broken<W: Model>(world: &W, always: &[Property<W>], state: &W::State) -> Option<&'static str> {
    let broken = always.iter().find(|property| !(property.condition)(world, state));
    broken.map(|property| property.name)
}

/// The same steps with the nodes numbered as they were at first: the search numbers them anew after each step.
fn numbered<const N: usize, const C: usize, const R: usize>(world: &World<N, C, R>, steps: Vec<Action>) -> Vec<Action> {
    let (mut here, mut there) = (world.first(), world.canonical(world.first()));
    let same = |action: Action| {
        there = world.next_state(&there, action).expect("a step of the search");
        let mut actions = Vec::new();
        world.candidates(&here, &mut actions);
        let found = actions.into_iter().find_map(|action| {
            let next = world.step(&here, action)?;
            (world.canonical(next) == there).then_some((action, next))
        });
        let (action, next) = found.expect("some step leads there");
        here = next;
        action
    };
    steps.into_iter().map(same).collect()
}

/// Plays the kept schedule against a rule, and says of each state on its way which property is broken there. A step
/// that the rules do not allow is none.
struct Played(Mutant);

fn play<W: Model>(
    world: &W,
    mut state: W::State,
    steps: Vec<W::Action>,
    step: impl Fn(&W, &W::State, W::Action) -> Option<W::State>,
) -> Vec<Option<&'static str>>
where
    W::Action: Copy + PartialEq,
{
    let always = promises(world);
    let mut played = vec![broken(world, &always, &state)];
    for action in steps {
        let mut possible = Vec::new();
        world.actions(&state, &mut possible);
        possible.retain(|step| *step == action);
        state = possible.pop().and_then(|it| step(world, &state, it)).unwrap_or(state);
        played.push(broken(world, &always, &state));
    }
    played
}

impl Visitor for Played {
    type Out = Vec<Option<&'static str>>;

    fn locks<const N: usize, const C: usize, const R: usize>(self, world: World<N, C, R>) -> Self::Out {
        let Schedule::Locks(steps) = Schedule::of(self.0) else { panic!("a schedule of lists") };
        play(&world, world.first(), steps, World::step)
    }

    fn lists<const Z: usize, const M: usize>(self, world: Lists<Z, M>) -> Self::Out {
        let Schedule::Lists(steps) = Schedule::of(self.0) else { panic!("a schedule of locks") };
        play(&world, world.first(), steps, Lists::step)
    }
}

/// Searches, and compares what it finds with the schedule that is kept.
struct Hunt {
    mutant: Mutant,
    lead: Vec<Action>,
    /// How many steps the kept schedule has, and the property that its last one breaks.
    kept: (usize, Option<&'static str>),
}

impl Hunt {
    fn compared<W: Model>(&self, death: Option<Death<W>>) -> Result<String, String>
    where
        W::Action: Debug,
    {
        let (lead, rule) = (self.lead.len(), self.mutant.rule());
        let Some(Death { property, steps, states }) = death else {
            return Err(format!("no schedule found against: {rule}"));
        };
        if std::env::var_os("FENCING_MODEL_TRACE").is_some() {
            println!("{:?}: {property} after {lead} given steps and", self.mutant);
            steps.iter().for_each(|step| println!("    {step:?},"));
        }
        let (steps, kept) = (lead + steps.len(), self.kept);
        if (steps, Some(property)) != kept {
            return Err(format!("{rule}: {steps} steps to \"{property}\", and kept are {kept:?}"));
        }
        Ok(format!("| {rule} | {property} | {steps} | {states} |"))
    }
}

impl Visitor for Hunt {
    type Out = Result<String, String>;

    fn locks<const N: usize, const C: usize, const R: usize>(self, mut world: World<N, C, R>) -> Self::Out {
        world.lead = self.lead.clone();
        let death = death(&world);
        self.compared(death.map(|it| Death { steps: numbered(&world, it.steps), ..it }))
    }

    fn lists<const Z: usize, const M: usize>(self, world: Lists<Z, M>) -> Self::Out {
        self.compared(death(&world))
    }
}

/// For each rule left out the search finds a schedule; that in `schedules.rs` is as short and breaks the same promise.
#[test]
fn every_mutant_dies() {
    println!("| rule left out | found: property broken | steps | states |\n|---|---|---|---|");
    let mut wrong = Vec::new();
    for (mutant, _) in Mutant::ALL {
        let case = Case::of(mutant);
        let lead = if let Case::Locks(locks) = &case { locks.lead.clone() } else { Vec::new() };
        let played = case.visit(Some(mutant), Played(mutant));
        let steps = played.len() - 1;
        let sooner = played[..steps].iter().any(Option::is_some);
        let kept = (steps, played[steps].filter(|_| !sooner));
        match case.visit(Some(mutant), Hunt { mutant, lead, kept }) {
            Ok(line) => println!("{line}"),
            Err(error) => wrong.push(error),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a rule of the library lacks shows here: the schedule that breaks a promise without it breaks none with it.
#[test]
fn with_its_rule_no_schedule_breaks_a_promise() {
    for (mutant, rule) in Mutant::ALL {
        let played = Case::of(mutant).visit(None, Played(mutant));
        assert!(played.iter().all(Option::is_none), "{rule}: {played:?}");
    }
}

/// The limit that docs/assurance/reliability.md tells of: a `prepare` repeated after a flush. If this
/// search finds nothing any more, the limit is gone.
#[test]
fn a_prepare_repeated_after_a_flush_is_not_covered() {
    let lead = "flush@0, prepare 0@0, prepare 1@0, readmit 0@12, readmit 1@12, readmit 0@12, readmit 1@12, \
        readmit 0@0, acquire 0@01, deliver 0@01, publish 0@1";
    let budget = Budget { losses: 2, repeats: 1, ..Budget::default() };
    let mut world = World::<3, 2, 2>::new(budget, None);
    world.lead = actions(lead);
    let checker = world.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    assert!(!checker.discoveries().keys().all(|name| !name.starts_with('I')));
}
