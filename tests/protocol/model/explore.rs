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
