//! Properties, and runs of stateright.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::state::{Budget, State, Vote};
use crate::world::{Action, World};

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
        let mut properties = vec![
            Property::always("I1: no token twice", |_, state: &State<N, C, R>| state.unique()),
            Property::always("I2: larger than what was returned", |_, state: &State<N, C, R>| {
                state.ordered()
            }),
            Property::always(
                "a followed lease stays lost",
                |world: &World<N, C, R>, state: &State<N, C, R>| !world.revived(state),
            ),
            Property::sometimes("a lease is granted", |_, state: &State<N, C, R>| {
                state.highest() > 0
            }),
            Property::sometimes("two leases in order", |_, state: &State<N, C, R>| {
                state.in_order()
            }),
            Property::sometimes("a publish was needed", |_, state: &State<N, C, R>| {
                state.clients.iter().any(|c| c.slots.iter().any(|slot| slot.publish != 0))
            }),
        ];
        if R > 0 {
            properties.push(Property::sometimes(
                "a re-admission happened",
                |_, state: &State<N, C, R>| state.orders.iter().any(|order| order.done),
            ));
            properties.push(Property::sometimes("an era grew", |_, state: &State<N, C, R>| {
                state.clients.iter().any(|client| client.token >= 2_000_000)
            }));
        }
        if self.budget.renewals {
            properties.push(Property::sometimes(
                "a renewal healed a node",
                |_, state: &State<N, C, R>| {
                    let mut slots = state.clients.iter().flat_map(|client| client.slots);
                    slots.any(|slot| slot.renewal == Vote::Healed)
                },
            ));
        }
        properties
    }
}

pub fn run<const N: usize, const C: usize, const R: usize>(world: World<N, C, R>, limit: usize) {
    let started = Instant::now();
    let budget = world.budget;
    let mut builder = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    if limit > 0 {
        builder = builder.target_state_count(limit);
    }
    let checker = builder.spawn_bfs().join();
    println!(
        "N = {N}, {C} attempts, {R} re-admissions, {budget:?}: {} states, {} unique, depth {}, {:.1} s ({})",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f64(),
        checker.model().law.sizes(),
    );
    for (name, path) in checker.discoveries() {
        println!("  {name}: {} steps", path.clone().into_actions().len());
        if std::env::var("FENCING_MODEL_TRACE").is_ok()
            || name.starts_with('I')
            || name.starts_with("a followed")
        {
            println!("{:#?}", path.into_actions());
        }
    }
}

#[test]
#[ignore]
fn probe() {
    let env = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u8>().ok()).unwrap_or(0);
    let budget = Budget {
        losses: env("L"),
        rollbacks: env("B"),
        repeats: env("P"),
        collections: env("K"),
        seconds: 0,
        renewals: env("W") > 0,
    };
    let limit = std::env::var("LIMIT").ok().and_then(|v| v.parse().ok()).unwrap_or(3_000_000);
    macro_rules! go {
        ($n:literal $c:literal $r:literal) => {
            if (env("N"), env("C"), env("R")) == ($n, $c, $r) {
                let mut world = World::<$n, $c, $r>::new(budget, None);
                world.crashes = env("X") > 0;
                world.blank = env("F") > 0;
                run(world, limit);
            }
        };
    }
    go!(3 2 0);
    go!(3 3 0);
    go!(3 2 1);
    go!(3 2 2);
    go!(3 2 3);
    go!(3 3 1);
    go!(3 3 2);
    go!(3 3 3);
    go!(5 2 0);
    go!(5 2 1);
    go!(3 4 0);
    go!(3 4 1);
}
