//! Every rule is needed: with any one left out the search finds a violation.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::model::lists::Lists;
use crate::model::mutant::Mutant;
use crate::model::state::Budget;
use crate::model::world::{Action, World};

/// How a mutant died.
struct Death {
    rule: &'static str,
    property: &'static str,
    steps: usize,
    states: usize,
}

/// Searches the smallest world in which the rule is known to matter.
fn hunt<const N: usize, const C: usize, const R: usize>(
    mutant: Mutant,
    budget: Budget,
    lead: &[Action],
) -> Result<Death, &'static str> {
    hunt_shared::<N, C, R>(mutant, budget, 0, lead)
}

/// The same where some of the clients share the lock.
fn hunt_shared<const N: usize, const C: usize, const R: usize>(
    mutant: Mutant,
    budget: Budget,
    shared: u8,
    lead: &[Action],
) -> Result<Death, &'static str> {
    let mut world = World::<N, C, R>::new(budget, Some(mutant));
    world.lead = lead.to_vec();
    world.seam.shared = shared;
    world.prompt = budget.renewals && shared == 0;
    world.clock = if budget.collections > 0 { 100 } else { 0 };
    death(mutant, world, lead.len())
}

/// The same where lists are started or moved.
fn hunt_lists<const Z: usize, const M: usize>(
    mutant: Mutant,
    old: &[u8],
    new: &[u8],
) -> Result<Death, &'static str> {
    let mut world = Lists::<Z, M>::new(old, new, Some(mutant));
    (world.starters, world.movers) = if old.is_empty() { (M, 0) } else { (0, M) };
    death(mutant, world, 0)
}

/// Breadth first and by one thread, so that the schedule found is the shortest one there.
fn death<W>(mutant: Mutant, world: W, lead: usize) -> Result<Death, &'static str>
where
    W: Model + Send + Sync + 'static,
    W::State: Clone + Hash + PartialEq + Debug + Send + Sync + 'static,
    W::Action: Clone + PartialEq + Debug + Send + Sync + 'static,
{
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
    let (steps, states) = (lead + actions.len(), checker.unique_state_count());
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
        // Read, then a start: marked, looked at, promised, activated at one node.
        readmit(0, &[1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1]),
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
    // Two clients began to bring node 0 back, and a third one goes on with it. Nodes 1 and 2
    // promise, and forget that; node 0 is back all the same, and an attempt is granted there.
    // Then it forgets once more, and is brought back; the attempt is won.
    let begin = |who, node| vec![Prepare { who, node, collect: false }];
    let whole = |who, node, others: &[u8]| {
        [begin(who, node), readmit(who, others), readmit(who, others), readmit(who, &[node])]
            .concat()
    };
    let promises = [
        vec![Flush { node: 0 }],
        [0, 1, 2].map(|who| [begin(who, 0), readmit(who, &[1, 2, 3, 1])].concat()).concat(),
        vec![Flush { node: 1 }],
        whole(3, 1, &[2, 3, 4]),
        readmit(2, &[2]),
        vec![Flush { node: 2 }],
        whole(4, 2, &[1, 3, 4]),
        readmit(2, &[3, 0]),
        [0, 3, 4].map(|node| Acquire { client: 0, node }).to_vec(),
        [0, 3, 4].map(|node| Deliver { client: 0, node }).to_vec(),
        vec![Flush { node: 0 }],
        begin(5, 0),
        readmit(5, &[1, 2, 4, 1, 2, 4, 0]),
        [3, 4].map(|node| Publish { client: 0, node }).to_vec(),
    ]
    .concat();
    // A client has held the lock alone, on nodes 0 and 1.
    let alone = [
        [0, 1].map(|node| Acquire { client: 0, node }),
        [0, 1].map(|node| Deliver { client: 0, node }),
    ]
    .concat();
    let deaths = [
        hunt::<3, 2, 0>(Mutant::NoPublish, calm, &[]),
        hunt::<3, 2, 0>(Mutant::PublishToAnyOwner, calm, &[]),
        hunt::<3, 2, 0>(Mutant::LateGrantsCount, calm, &[]),
        hunt::<3, 2, 0>(Mutant::MajorityOfAnswers, calm, &[]),
        hunt::<3, 2, 0>(Mutant::PublishBelowCount, repeat, &[]),
        hunt::<3, 2, 0>(Mutant::EmptyNodesVote, losses(1), &[]),
        hunt::<3, 2, 1>(Mutant::NobodyIsRead, losses(1), &[]),
        hunt::<3, 2, 1>(Mutant::NoNewEra, losses(1), &[]),
        hunt::<3, 2, 1>(Mutant::PublishToAnyMemory, rollback, &[]),
        hunt::<3, 2, 2>(Mutant::NoReserve, losses(2), &readmission),
        hunt::<5, 2, 6>(Mutant::NoConfirm, losses(4), &promises),
        hunt::<3, 2, 2>(Mutant::ActivateAnyMemory, losses(2), &race),
        hunt::<3, 2, 2>(Mutant::ActivateDropsAlways, losses(1), &race),
        hunt::<3, 2, 2>(Mutant::StartsWhileRemembered, collection, &collecting),
        hunt_lists::<3, 2>(Mutant::NoStartPromise, &[], &[0, 1, 2]),
        hunt_lists::<3, 2>(Mutant::ReadsBeforeMarks, &[], &[0, 1, 2]),
        hunt_lists::<4, 1>(Mutant::NoFleetCheck, &[0, 1, 2], &[0, 1, 3]),
        hunt::<3, 2, 0>(Mutant::HealsOverCounts, renewals, &[]),
        hunt::<3, 2, 0>(Mutant::RenewalOfOne, renewals, &[]),
        hunt_shared::<3, 2, 0>(Mutant::SharedIsNotCounted, calm, 0b10, &[]),
        hunt_shared::<3, 3, 0>(Mutant::SharedHealsBelowToken, renewals, 0b110, &alone),
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
