//! Random walks over the real `protocol` with five and seven nodes: see docs/assurance/reliability.md.
//!
//! `FENCING_WALK_STEPS` says how many steps, `FENCING_WALK_SEED` with which seed.

mod servers;
mod world;

use std::collections::BTreeMap;

use world::World;

type Tally = BTreeMap<&'static str, u64>;

/// A walk begins anew after so many steps, with the next seed.
const LENGTH: u64 = 5_000;

fn variable(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// What happened, and the seed of the walk that broke a promise, and what it broke.
fn walk(steps: u64, world: impl Fn(u64) -> World) -> (Tally, Option<(u64, String)>) {
    let first = variable("FENCING_WALK_SEED").unwrap_or_else(|| fastrand::u64(..u64::MAX / 2));
    println!("{steps} steps from FENCING_WALK_SEED={first}");
    let mut sum = Tally::default();
    for seed in first..first + steps.div_ceil(LENGTH) {
        let mut world = world(seed);
        let broken = (0..LENGTH).find_map(|_| world.step().err());
        for (what, times) in world.tally {
            *sum.entry(what).or_default() += times;
        }
        if let Some(broken) = broken {
            return (sum, Some((seed, broken)));
        }
    }
    println!("{sum:?}");
    (sum, None)
}

fn holds(nodes: usize, new: Option<Vec<usize>>) {
    let steps = variable("FENCING_WALK_STEPS").unwrap_or(2_000_000);
    println!("{nodes} nodes, moved to {new:?}");
    let (tally, broken) = walk(steps, |seed| World::new(nodes, new.clone(), seed, true));
    if let Some((seed, broken)) = broken {
        panic!("{nodes} nodes, moved to {new:?}, FENCING_WALK_SEED={seed}: {broken}");
    }
    // One walk alone shows little.
    if steps > 100 * LENGTH {
        let times = |what: &str| tally.get(what).copied().unwrap_or(0);
        let often = ["leases", "losses", "back", "repeats", "renewals"];
        let often = often.into_iter().all(|what| times(what) >= steps / 2_000);
        let moves = new.is_none() || times("moves") > 0 && times("moved leases") > 0;
        assert!(often && moves && times("collected") > 0, "too little happened: {tally:?}");
    }
}

#[test]
fn order_holds_with_five_nodes() {
    holds(5, None);
}

#[test]
fn order_holds_with_seven_nodes() {
    holds(7, None);
}

#[test]
fn order_holds_while_a_fleet_is_moved() {
    holds(3, Some(vec![0, 1, 3]));
    holds(5, Some(vec![2, 3, 4, 5, 6]));
}

/// The control: a walk that could not find this would show nothing.
#[test]
fn a_rule_that_is_left_out_is_found() {
    let (_, broken) = walk(1_000_000, |seed| World::new(5, None, seed, false));
    println!("without the publish: {broken:?}");
    assert!(broken.is_some());
}
