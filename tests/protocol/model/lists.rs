//! A world of two lists of nodes: first starts, moves, re-admissions and losses. Nobody locks
//! anything: order needs that no node is given an era twice, and that no two lists vote.

use fencing_protocol::{Nonce, Reply, Request, majority};

use crate::model::mutant::Mutant;
use crate::model::node::activate;
use crate::model::pool::Id;
use crate::model::seam::{Open, Seam, Turn};

/// What the clocks of all nodes show.
pub const CLOCK: u8 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub store: Id,
    pub life: u8,
    /// The largest era in which it was ever activated.
    pub top: u16,
    /// It has forgotten, and is not re-admitted.
    pub lost: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// Zero before it begins.
    pub machine: Id,
    /// Its requests that are on their way; zero for none.
    pub open: Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State<const Z: usize, const M: usize> {
    pub nodes: [Node; Z],
    pub clients: [Client; M],
    pub losses: u8,
    pub patience: u8,
    /// A node was activated in an era that was not above every earlier one of its own.
    pub again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A node executes a request, and the answer is back at once.
    Run { who: u8, server: u8 },
    /// A client does not wait for an answer any more. The request may arrive later.
    GiveUp { who: u8, server: u8 },
    /// A request that was given up arrives.
    Late { who: u8, server: u8 },
    /// A server comes back empty.
    Lose { server: u8 },
    /// A client begins to bring a node back to its list.
    Readmit { who: u8, list: u8, server: u8 },
}

#[derive(Default)]
pub struct Lists<const Z: usize, const M: usize> {
    pub seam: Seam,
    /// Clients that start the new list, and clients that move the old one there. The others re-admit.
    pub starters: usize,
    pub movers: usize,
    pub losses: u8,
    /// Nodes that were never admitted forget as well, their promises among it.
    pub blank_losses: bool,
    pub patience: u8,
    pub lead: Vec<Step>,
}

impl<const Z: usize, const M: usize> Lists<Z, M> {
    pub fn new(old: &[u8], new: &[u8], mutant: Option<Mutant>) -> Lists<Z, M> {
        let seam = Seam::of_lists([old.to_vec(), new.to_vec()], mutant);
        Lists { seam, losses: 1, blank_losses: true, ..Lists::default() }
    }

    pub fn first(&self) -> State<Z, M> {
        let node = Node { store: self.seam.stores.id(&Default::default()), life: 0, top: 0, lost: false };
        let (losses, patience) = (self.losses, self.patience);
        let clients = [Client::default(); M];
        let mut state = State { nodes: [node; Z], clients, losses, patience, again: false };
        for server in &self.seam.lists[0] {
            let node = &mut state.nodes[*server as usize];
            let (mut store, nonce) = (self.seam.stores.get(node.store), Nonce(1000));
            self.seam.ask(&mut store, 0, 0, CLOCK, &Request::Prepare { nonce, from: None });
            let activated = self.seam.ask(&mut store, 0, 0, CLOCK, &activate(nonce, 1));
            assert_eq!(activated, Reply::Activated);
            (node.store, node.top) = (self.seam.stores.id(&store), 1);
        }
        for who in 0..self.starters {
            self.take(&mut state.clients[who], self.seam.readmit(who as u8, 1, self.seam.lists[1][0], true));
            // Up to the start: the target is marked, and nobody is admitted.
            for server in self.seam.lists[1].clone() {
                let before = state;
                state = self.run(&before, who, server, false).expect("it asks everybody");
            }
        }
        for who in self.starters..self.starters + self.movers {
            self.take(&mut state.clients[who], self.seam.mover(who as u8));
        }
        self.lead
            .iter()
            .fold(state, |state, step| self.step(&state, *step).unwrap_or_else(|| panic!("{step:?} does nothing")))
    }

    /// Drops a past round's requests, save those given up and activations: other late ones only add to what nodes know.
    pub fn take(&self, client: &mut Client, turn: Turn) {
        client.machine = turn.machine;
        if turn.sends == 0 && !turn.over {
            return;
        }
        let mut open = self.requests(*client);
        open.retain(|open| open.given_up || (turn.over && self.activates(*open)));
        if turn.sends != 0 {
            open.extend(self.seam.opens.get(turn.sends));
        }
        client.open = self.seam.open(open);
    }

    /// What a node becomes that executes the request, and its reply.
    pub fn answer(&self, node: Node, open: Open) -> (Id, Id) {
        self.seam.answer(node.store, node.life, open.list, CLOCK, open.request)
    }

    fn feed(&self, machine: Id, from: Open, reply: Id) -> Turn {
        let node = self.seam.index(from.list, from.server) as u8;
        self.seam.feed(machine, from.phase, node, reply)
    }

    fn activates(&self, open: Open) -> bool {
        matches!(self.seam.requests.get(open.request), Request::Activate { .. })
    }

    pub fn requests(&self, client: Client) -> Vec<Open> {
        if client.open == 0 { Vec::new() } else { self.seam.opens.get(client.open) }
    }

    /// Takes the client's request to that server from those on their way.
    fn pick(&self, client: &mut Client, server: u8, given_up: bool) -> Option<Open> {
        let mut open = self.requests(*client);
        let found = open.iter().position(|o| o.server == server && o.given_up == given_up)?;
        let picked = open.remove(found);
        client.open = self.seam.open(open);
        Some(picked)
    }

    pub fn run(&self, before: &State<Z, M>, who: usize, server: u8, late: bool) -> Option<State<Z, M>> {
        let mut state = *before;
        let open = self.pick(&mut state.clients[who], server, late)?;
        let node = &mut state.nodes[server as usize];
        let was = self.seam.known(node.store, node.life, open.list);
        let (store, reply) = self.answer(*node, open);
        node.store = store;
        let now = self.seam.known(store, node.life, open.list);
        if let (true, None, Some((era, _))) = (self.activates(open), was, now) {
            let era = era as u16;
            state.again |= era <= node.top;
            (node.top, node.lost) = (node.top.max(era), false);
        }
        if !late {
            let machine = state.clients[who].machine;
            let turn = self.feed(machine, open, reply);
            self.take(&mut state.clients[who], turn);
        }
        Some(state)
    }

    pub fn give_up(&self, before: &State<Z, M>, who: usize, server: u8) -> Option<State<Z, M>> {
        let mut state = *before;
        let client = &mut state.clients[who];
        let open = self.pick(client, server, false)?;
        let mut requests = self.requests(*client);
        requests.push(Open { given_up: true, ..open });
        client.open = self.seam.open(requests);
        let turn = self.feed(client.machine, open, 0);
        self.take(client, turn);
        state.patience -= 1;
        Some(state)
    }

    /// Never more than a minority of either list has forgotten.
    pub fn may_forget(&self, state: &State<Z, M>, server: u8) -> bool {
        let few = |list: &Vec<u8>| {
            let lost = list.iter().filter(|member| state.nodes[**member as usize].lost).count();
            !list.contains(&server) || lost < list.len() - majority(list.len())
        };
        let node = state.nodes[server as usize];
        let may = !node.lost && (self.blank_losses || node.top > 0);
        state.losses > 0 && may && self.seam.lists.iter().all(few)
    }

    pub fn votes(&self, state: &State<Z, M>, list: u8) -> usize {
        let members = self.seam.lists[list as usize].iter();
        let nodes = members.map(|server| state.nodes[*server as usize]);
        nodes.filter(|node| self.seam.known(node.store, node.life, list).is_some()).count()
    }

    pub fn both_vote(&self, state: &State<Z, M>) -> bool {
        let vote = |list: u8| {
            let members = self.seam.lists[list as usize].len();
            members > 0 && self.votes(state, list) >= majority(members)
        };
        vote(0) && vote(1)
    }

    /// Clients of one kind are alike: they begin in the order of their numbers.
    pub fn may_begin(&self, state: &State<Z, M>, who: usize) -> bool {
        let idle = |who: usize| state.clients[who].machine == 0;
        !idle(who) || who <= self.starters + self.movers || !idle(who - 1)
    }

    pub fn candidates(&self, state: &State<Z, M>, steps: &mut Vec<Step>) {
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
                    let lost = self.seam.lists[list as usize].iter().filter(lost);
                    steps.extend(lost.map(|server| Step::Readmit { who: number, list, server: *server }));
                }
            }
        }
        let servers = (0..Z as u8).filter(|server| self.may_forget(state, *server));
        steps.extend(servers.map(|server| Step::Lose { server }));
    }

    /// The state after `step`; `None` where it is not possible.
    pub fn step(&self, before: &State<Z, M>, step: Step) -> Option<State<Z, M>> {
        match step {
            Step::Run { who, server } => self.run(before, who.into(), server, false),
            Step::Late { who, server } => self.run(before, who.into(), server, true),
            Step::GiveUp { who, server } => self.give_up(before, who.into(), server),
            Step::Lose { server } => {
                let mut state = *before;
                state.losses -= 1;
                let node = &mut state.nodes[server as usize];
                node.store = self.seam.stores.id(&Default::default());
                (node.life, node.lost) = (node.life + 1, true);
                Some(state)
            }
            Step::Readmit { who, list, server } => {
                let mut state = *before;
                let turn = self.seam.readmit(who, list, server, false);
                self.take(&mut state.clients[who as usize], turn);
                Some(state)
            }
        }
    }
}
