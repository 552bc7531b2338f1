//! Every order in which a few requests can reach the fence: the real `Fence`, polled by hand
//! through each of its schedules, and what it becomes with one rule taken out.

mod explore;
mod guard;

use explore::{Scenario, explore};
use guard::{Guard, Outcome, Request};

const fn write(token: u64) -> Request {
    Request { token, reads: false, may_vanish: false }
}

const fn read(token: u64) -> Request {
    Request { reads: true, ..write(token) }
}

const fn vanishing(token: u64) -> Request {
    Request { may_vanish: true, ..write(token) }
}

const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "older, newer", requests: &[write(33), write(34)] },
    Scenario { name: "older, newer, newest", requests: &[write(33), write(34), write(35)] },
    Scenario { name: "older, and a lease twice", requests: &[write(33), write(34), write(34)] },
    Scenario { name: "older twice, a newer read", requests: &[write(33), write(33), read(34)] },
    Scenario { name: "older, a newer that goes away", requests: &[write(33), vanishing(34)] },
    Scenario { name: "older that goes away, newer, newest", requests: &[vanishing(33), write(34), write(35)] },
];

#[test]
fn no_order_lets_an_older_token_act_behind_a_newer_one() {
    for guard in [Guard::Fence, Guard::DropOlder, Guard::AsksFirst] {
        // The questions make many more schedules.
        let most = if guard == Guard::AsksFirst { 2 } else { 3 };
        for scenario in SCENARIOS.iter().filter(|scenario| scenario.requests.len() <= most) {
            let found = explore(guard, scenario);
            let name = scenario.name;
            println!("{guard:?}: {} schedules, {} steps at most: {name}", found.schedules, found.longest);
            if let Some((what, steps)) = found.violation {
                panic!("{guard:?}, {name}: {what} after {steps:?}");
            }
            // A search that never lets anybody in, or never refuses, shows nothing.
            let ended = |how: fn(&Outcome) -> bool| found.outcomes.iter().any(how);
            assert!(ended(|it| *it == Outcome::Acted), "{guard:?}, {name}");
            assert!(ended(|it| matches!(it, Outcome::Refused(_))), "{guard:?}, {name}");
            let superseded = ended(|it| *it == Outcome::Superseded);
            assert_eq!(superseded, guard != Guard::Fence, "{name}");
        }
    }
}

#[test]
fn every_mutant_dies() {
    for mutant in Guard::MUTANTS {
        let mut found = SCENARIOS.iter().filter_map(|scenario| explore(mutant, scenario).violation);
        let Some((what, steps)) = found.next() else { panic!("survives: {mutant:?}") };
        println!("{mutant:?}: {what} in {} steps", steps.len());
    }
}
