//! Every rule is needed: with any one left out the search finds a violation.

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::mutant::Mutant;
use crate::state::Budget;
use crate::world::{Action, World};

/// How a mutant died.
struct Death {
    rule: &'static str,
    property: &'static str,
    steps: usize,
    states: usize,
}

/// Searches the smallest world in which the rule is known to matter, breadth first and by
/// one thread, so that the schedule found is the shortest one there.
fn hunt<const C: usize, const R: usize>(
    mutant: Mutant,
    budget: Budget,
    lead: &[Action],
) -> Result<Death, &'static str> {
    let mut world = World::<3, C, R>::new(budget, Some(mutant));
    world.lead = lead.to_vec();
    world.prompt = budget.renewals;
    let checker = world.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let broken = found
        .into_iter()
        .filter(|(name, _)| checker.model().property(name).expectation == Expectation::Always);
    let broken = broken.map(|(name, path)| (path.into_actions(), name));
    let death = broken.min_by_key(|(actions, name)| (actions.len(), *name));
    let Some((actions, property)) = death else { return Err(mutant.rule()) };
    if std::env::var_os("FENCING_MODEL_TRACE").is_some() {
        println!("{mutant:?}: {actions:#?}");
    }
    let (steps, states) = (lead.len() + actions.len(), checker.unique_state_count());
    Ok(Death { rule: mutant.rule(), property, steps, states })
}

#[test]
fn every_mutant_dies() {
    use Action::*;
    let calm = Budget::default();
    let losses = |losses| Budget { losses, ..calm };
    let renewals = Budget { renewals: true, ..calm };
    let rollback = Budget { losses: 1, rollbacks: 1, ..calm };
    let repeat = Budget { repeats: 1, ..calm };
    // Node 1 forgets, and counts are to be collected on node 0 meanwhile.
    let collection = Budget { losses: 2, collections: 1, ..calm };
    let readmit = |who, nodes: &[u8]| {
        nodes.iter().map(|node| Readmit { who, node: *node }).collect::<Vec<_>>()
    };
    let collecting = [
        vec![Flush { node: 1 }, Prepare { who: 0, node: 0, collect: true }],
        readmit(0, &[1, 2, 0, 1, 2, 0, 1, 2, 1]),
        vec![Acquire { client: 0, node: 1 }, Acquire { client: 0, node: 2 }],
    ]
    .concat();
    // Node 0 forgets and is brought back; or two clients are about to bring it back.
    let readmission = [
        vec![Flush { node: 0 }, Prepare { who: 0, node: 0, collect: false }],
        readmit(0, &[1, 2, 1, 2, 0]),
    ]
    .concat();
    let race = [
        vec![Flush { node: 0 }],
        vec![
            Prepare { who: 0, node: 0, collect: false },
            Prepare { who: 1, node: 0, collect: false },
        ],
        readmit(0, &[1, 2]),
        readmit(1, &[1, 2]),
        readmit(0, &[1, 2, 0]),
        readmit(1, &[1, 2]),
    ]
    .concat();
    let deaths = [
        hunt::<2, 0>(Mutant::NoPublish, calm, &[]),
        hunt::<2, 0>(Mutant::PublishToAnyOwner, calm, &[]),
        hunt::<2, 0>(Mutant::LateGrantsCount, calm, &[]),
        hunt::<2, 0>(Mutant::MajorityOfAnswers, calm, &[]),
        hunt::<2, 0>(Mutant::PublishBelowCount, repeat, &[]),
        hunt::<2, 0>(Mutant::EmptyNodesVote, losses(1), &[]),
        hunt::<2, 1>(Mutant::NobodyIsRead, losses(1), &[]),
        hunt::<2, 1>(Mutant::NoNewEra, losses(1), &[]),
        hunt::<2, 1>(Mutant::PublishToAnyMemory, rollback, &[]),
        hunt::<2, 2>(Mutant::NoReserve, losses(2), &readmission),
        hunt::<2, 2>(Mutant::ActivateAnyMemory, losses(2), &race),
        hunt::<2, 2>(Mutant::ActivateDropsAlways, losses(1), &race),
        hunt::<2, 2>(Mutant::StartsWhileRemembered, collection, &collecting),
        hunt::<2, 0>(Mutant::HealsOverCounts, renewals, &[]),
        hunt::<2, 0>(Mutant::RenewalOfOne, renewals, &[]),
    ];
    println!("| rule left out | found: property broken | steps | states |\n|---|---|---|---|");
    let mut alive = Vec::new();
    for death in deaths {
        match death {
            Ok(Death { rule, property, steps, states }) => {
                println!("| {rule} | {property} | {steps} | {states} |");
            }
            Err(rule) => alive.push(rule),
        }
    }
    assert!(alive.is_empty(), "no schedule found against: {alive:#?}");
}

/// The limit that docs/reliability.md tells of: a `prepare` repeated after a flush. If this
/// search finds nothing any more, the limit is gone.
#[test]
fn a_prepare_repeated_after_a_flush_is_not_covered() {
    use Action::*;
    let readmit = |who, nodes: [u8; 2]| nodes.map(|node| Readmit { who, node });
    let mut lead = vec![Flush { node: 0 }];
    lead.extend([0, 1].map(|who| Prepare { who, node: 0, collect: false }));
    for who in [0, 1, 0, 1] {
        lead.extend(readmit(who, [1, 2]));
    }
    lead.push(Readmit { who: 0, node: 0 });
    lead.extend([0, 1].map(|node| Acquire { client: 0, node }));
    lead.extend([0, 1].map(|node| Deliver { client: 0, node }));
    lead.push(Publish { client: 0, node: 1 });
    let budget = Budget { losses: 2, repeats: 1, ..Budget::default() };
    let mut world = World::<3, 2, 2>::new(budget, None);
    world.lead = lead;
    let checker = world.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    assert!(!checker.discoveries().keys().all(|name| !name.starts_with('I')));
}
