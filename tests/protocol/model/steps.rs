//! What each step does to the state. Every answer comes out of `crate::model::seam`.

use fencing_protocol::Reply;

use crate::model::mutant::Mutant;
use crate::model::node::count_once;
use crate::model::pool::Id;
use crate::model::seam::{CONFIRM, Change, Open, PREPARE, START_CONFIRM, Turn};
use crate::model::state::{Client, Node, Order, Slot, State, Vote, Wait};
use crate::model::world::{Action, World};

impl<const N: usize, const C: usize, const R: usize> World<N, C, R> {
    pub fn acquire(&self, state: &mut State<N, C, R>, client: u8, node: u8, expired: bool, lost: bool) -> Option<()> {
        // All attempts are alike: they begin in the order of their numbers.
        let c = client as usize;
        if c > 0 && state.clients[c - 1].machine == 0 {
            return None;
        }
        if self.prompt && state.clients[c].token != 0 {
            return None;
        }
        let (highest, alone) = (state.highest(), state.highest_alone(&self.seam));
        let (machine, request) = self.seam.attempt(client);
        if expired {
            self.vanish(state, node);
        }
        let mut reply = self.execute(state, node, request);
        if matches!(self.seam.replies.get(reply), Reply::Held { .. }) {
            self.vanish(state, node);
            reply = self.execute(state, node, request);
        }
        if !matches!(self.seam.replies.get(reply), Reply::Granted { .. }) {
            return None;
        }
        let attempt = &mut state.clients[c];
        if attempt.machine == 0 {
            // Beginning later than this would be asked more of.
            (attempt.machine, attempt.floor) = (machine, highest);
            attempt.floor_alone = if self.seam.shares(c) { alone } else { highest };
        }
        let slot = &mut attempt.slots[node as usize];
        slot.ran = true;
        let awaited = self.seam.feed(attempt.machine, 0, node, reply).machine != attempt.machine;
        if awaited && !lost {
            slot.reply = reply;
        }
        Some(())
    }

    pub fn deliver(&self, state: &mut State<N, C, R>, client: u8, node: u8) {
        let attempt = &mut state.clients[client as usize];
        let reply = std::mem::take(&mut attempt.slots[node as usize].reply);
        self.feed(attempt, node, reply);
        self.note_win(state, client);
    }

    /// Only renewals ask for it.
    fn note_win(&self, state: &mut State<N, C, R>, client: u8) {
        let highest = state.highest();
        let attempt = &mut state.clients[client as usize];
        if state.budget.renewals && attempt.token != 0 && attempt.peak == 0 {
            attempt.peak = highest;
        }
    }

    fn feed(&self, attempt: &mut Client<N>, node: u8, reply: Id) {
        let fed = self.seam.feed(attempt.machine, 0, node, reply);
        attempt.machine = fed.machine;
        if fed.sends != 0 {
            for Open { server, request, .. } in self.seam.opens.get(fed.sends) {
                attempt.slots[server as usize].publish = request;
            }
        }
        if attempt.token == 0 {
            attempt.token = fed.won;
        }
    }

    /// The answer is taken as back at once: a win that is noticed earlier only asks more of the others.
    pub fn publish(&self, state: &mut State<N, C, R>, client: u8, node: u8) -> Option<()> {
        let slot = &mut state.clients[client as usize].slots[node as usize];
        let request = std::mem::take(&mut slot.publish);
        let reply = self.execute(state, node, request);
        if self.seam.replies.get(reply) != Reply::Published {
            return None;
        }
        self.feed(&mut state.clients[client as usize], node, reply);
        self.note_win(state, client);
        Some(())
    }

    pub fn renew(&self, state: &mut State<N, C, R>, client: u8, node: u8) -> Option<()> {
        let Client { token, slots, .. } = state.clients[client as usize];
        if slots[node as usize].renewal != Vote::None {
            return None;
        }
        let request = self.seam.renewal(client, token);
        let highest = state.highest();
        let before = state.nodes[node as usize].store;
        let mut reply = self.execute(state, node, request);
        if matches!(self.seam.replies.get(reply), Reply::Held { .. }) {
            self.vanish(state, node);
            reply = self.execute(state, node, request);
        }
        if self.seam.replies.get(reply) != Reply::Renewed {
            return None;
        }
        let healed = before != state.nodes[node as usize].store;
        let attempt = &mut state.clients[client as usize];
        if attempt.slots.iter().all(|slot| slot.renewal == Vote::None) {
            attempt.renewal_floor = highest;
        }
        attempt.slots[node as usize].renewal = if healed { Vote::Healed } else { Vote::Extended };
        Some(())
    }

    /// The part of a client in a shared lock vanishes.
    pub fn leave(&self, state: &mut State<N, C, R>, client: u8, node: u8) {
        let node = &mut state.nodes[node as usize];
        node.store = self.seam.changed(node.store, Change::PartVanishes(client));
    }

    /// A renewal that succeeded although somebody had followed before it began.
    pub fn revived(&self, state: &State<N, C, R>) -> bool {
        state.clients.iter().enumerate().any(|(number, client)| {
            client.renewal_floor > client.peak && {
                let votes = client.slots.map(|slot: Slot| slot.renewal != Vote::None);
                self.seam.renewed(number as u8, client.token, &votes)
            }
        })
    }

    pub fn lose(&self, state: &mut State<N, C, R>, how: Action, node: usize) -> Option<()> {
        state.budget.losses -= 1;
        let lost = &mut state.nodes[node];
        lost.store = match how {
            Action::Restore { .. } => std::mem::take(&mut lost.disk),
            _ => self.seam.changed(lost.store, Change::Forgets),
        };
        if !matches!(how, Action::Flush { .. }) {
            lost.life += 1;
        }
        Some(())
    }

    pub fn prepare(&self, state: &mut State<N, C, R>, who: u8, node: u8, collect: bool) -> Option<()> {
        let w = who as usize;
        let begun = |order: &Order<N>| order.machine != 0;
        if begun(&state.orders[w]) || (w > 0 && !begun(&state.orders[w - 1])) {
            return None;
        }
        if self.is_admitted(state.nodes[node as usize]) != collect {
            return None;
        }
        if collect {
            self.crowd(state, node)?;
        }
        let (machine, request) = self.seam.order(who, node, collect);
        state.orders[w] = Order { machine, target: node, ..Order::default() };
        state.orders[w].waits[node as usize] = Wait { phase: PREPARE, request, ran: false };
        self.readmit(state, who, node);
        Some(())
    }

    pub fn readmit(&self, state: &mut State<N, C, R>, who: u8, node: u8) {
        let wait = &mut state.orders[who as usize].waits[node as usize];
        wait.ran = true;
        let (phase, request) = (wait.phase, wait.request);
        let counts = self.counts_elsewhere(state, node);
        let reply = self.execute(state, node, request);
        self.rejoin(state, node, counts, reply);
        let order = &mut state.orders[who as usize];
        let fed = self.seam.feed(order.machine, phase, node, reply);
        self.go_on(state, who, fed);
    }

    pub fn give_up(&self, state: &mut State<N, C, R>, who: u8, node: u8) {
        let Order { machine, waits, .. } = state.orders[who as usize];
        let fed = self.seam.feed(machine, waits[node as usize].phase, node, 0);
        self.go_on(state, who, fed);
    }

    /// Sends what the machine asks for next. A promise is confirmed at once, by all in one step.
    ///
    /// Sound for a re-admission: those whose confirmation counts, in the memory in which they promised, held the
    /// promise at each moment from the last of the promises on. So the same answers could have been had right after it,
    /// and the activation that follows may be as late as it likes. A confirmation leaves no trace, and a re-admission
    /// that is not confirmed is one that nobody goes on with. The same holds for a start, where every promise has been
    /// answered; there a memory can be marked, as by anybody's prepare.
    fn go_on(&self, state: &mut State<N, C, R>, who: u8, fed: Turn) {
        let order = &mut state.orders[who as usize];
        order.machine = fed.machine;
        order.done |= fed.won != 0;
        if fed.sends == 0 {
            return;
        }
        for Open { server: node, phase, request, .. } in self.seam.opens.get(fed.sends) {
            if phase == CONFIRM || phase == START_CONFIRM {
                let reply = self.execute(state, node, request);
                let machine = state.orders[who as usize].machine;
                let fed = self.seam.feed(machine, phase, node, reply);
                self.go_on(state, who, fed);
            } else {
                let wait = Wait { phase, request, ran: false };
                state.orders[who as usize].waits[node as usize] = wait;
            }
        }
    }

    /// A count runs out on the node, unless one has already.
    fn crowd(&self, state: &mut State<N, C, R>, node: u8) -> Option<()> {
        let Node { store, life, .. } = state.nodes[node as usize];
        if self.is_crowded(state.nodes[node as usize]) {
            return Some(());
        }
        state.budget.collections = state.budget.collections.checked_sub(1)?;
        state.nodes[node as usize].store = self.seam.changed(store, Change::RunsOut(life));
        Some(())
    }

    /// For the mutant that copies counts: the largest count of the other nodes.
    fn counts_elsewhere(&self, state: &State<N, C, R>, node: u8) -> u64 {
        if self.seam.mutant != Some(Mutant::NoNewEra) {
            return 0;
        }
        let others = (0..N).filter(|other| *other != node as usize);
        let count = |other: usize| {
            let mut copy = self.seam.stores.get(state.nodes[other].store);
            count_once(&mut copy, state.nodes[other].life).map_or(0, |stamp| stamp.count - 1)
        };
        others.map(count).max().unwrap_or(0)
    }

    fn rejoin(&self, state: &mut State<N, C, R>, node: u8, counts: u64, reply: Id) {
        if counts > 0 && self.seam.replies.get(reply) == Reply::Activated {
            let node = &mut state.nodes[node as usize];
            node.store = self.seam.changed(node.store, Change::Counts(node.life, counts));
        }
    }
}
