//! What must hold in a world of two lists.

use stateright::{Model, Property};

use crate::model::lists::{Lists, State, Step};

impl<const Z: usize, const M: usize> Model for Lists<Z, M> {
    type State = State<Z, M>;
    type Action = Step;

    fn init_states(&self) -> Vec<State<Z, M>> {
        vec![self.first()]
    }

    fn actions(&self, state: &State<Z, M>, steps: &mut Vec<Step>) {
        self.candidates(state, steps);
    }

    fn next_state(&self, before: &State<Z, M>, step: Step) -> Option<State<Z, M>> {
        self.step(before, step)
    }

    fn properties(&self) -> Vec<Property<Lists<Z, M>>> {
        let all_vote = |world: &Lists<Z, M>, state: &State<Z, M>| {
            world.votes(state, 1) == world.desk.lists[1].len()
        };
        vec![
            Property::always("no era twice on a node", |_, state: &State<Z, M>| !state.again),
            Property::always("one list votes", |world: &Lists<Z, M>, state| {
                !world.both_vote(state)
            }),
            Property::sometimes("the new list votes", all_vote),
            Property::sometimes(
                "a loss is made good",
                |world: &Lists<Z, M>, state: &State<Z, M>| {
                    state.losses < world.losses && state.nodes.iter().all(|node| !node.lost)
                },
            ),
        ]
    }
}
