//! What may happen in a world of two lists, and what must hold there.

use stateright::{Model, Property};

use crate::model::lists::{Lists, State, Step};

impl<const Z: usize, const M: usize> Model for Lists<Z, M> {
    type State = State<Z, M>;
    type Action = Step;

    fn init_states(&self) -> Vec<State<Z, M>> {
        vec![self.first()]
    }

    fn actions(&self, state: &State<Z, M>, steps: &mut Vec<Step>) {
        for who in 0..M {
            let client = state.clients[who];
            let number = who as u8;
            for open in self.requests(client) {
                let server = open.server;
                if open.given_up {
                    steps.push(Step::Late { who: number, server });
                    continue;
                }
                steps.push(Step::Run { who: number, server });
                if state.patience > 0 {
                    steps.push(Step::GiveUp { who: number, server });
                }
            }
            if client.machine == 0 && self.may_begin(state, who) {
                for list in [0, 1] {
                    let lost = |server: &&u8| state.nodes[**server as usize].lost;
                    let lost = self.desk.lists[list as usize].iter().filter(lost);
                    steps.extend(lost.map(|server| Step::Readmit {
                        who: number,
                        list,
                        server: *server,
                    }));
                }
            }
        }
        let servers = (0..Z as u8).filter(|server| self.may_forget(state, *server));
        steps.extend(servers.map(|server| Step::Lose { server }));
    }

    fn next_state(&self, before: &State<Z, M>, step: Step) -> Option<State<Z, M>> {
        match step {
            Step::Run { who, server } => self.run(before, who.into(), server, false),
            Step::Late { who, server } => self.run(before, who.into(), server, true),
            Step::GiveUp { who, server } => self.give_up(before, who.into(), server),
            Step::Lose { server } => {
                let mut state = *before;
                state.losses -= 1;
                let node = &mut state.nodes[server as usize];
                node.store = self.desk.stores.id(&Default::default());
                (node.life, node.lost) = (node.life + 1, true);
                Some(state)
            }
            Step::Readmit { who, list, server } => {
                let mut state = *before;
                let turn = self.desk.readmit(who, list, server, false);
                self.take(&mut state.clients[who as usize], turn);
                Some(state)
            }
        }
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
