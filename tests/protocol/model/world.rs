//! The world around the protocol: who may do what next.

use fencing_protocol::{Store, majority};

use crate::model::mutant::Mutant;
use crate::model::node::{is_crowded, started};
use crate::model::pool::{Id, Memo};
use crate::model::seam::{Change, Known, STARTS, Seam};
use crate::model::state::{Budget, Client, Node, Order, State};

/// A step. Nodes, clients and re-admissions by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A node executes a client's request, the lock of anybody else having vanished.
    Acquire { client: u8, node: u8 },
    /// It executes it again; `expired`: its own lock had vanished; `lost`: the answer is.
    AcquireAgain { client: u8, node: u8, expired: bool, lost: bool },
    /// A grant reaches the client.
    Deliver { client: u8, node: u8 },
    /// A node executes a publish, and the answer is back at once.
    Publish { client: u8, node: u8 },
    /// A node executes a renewal, and the answer is back at once.
    Renew { client: u8, node: u8 },
    /// The part of a client in a shared lock vanishes.
    Leave { client: u8, node: u8 },
    /// A server comes back empty.
    Crash { node: u8 },
    /// A server loses its data and goes on.
    Flush { node: u8 },
    /// What the node knows now reaches its disk.
    Save { node: u8 },
    /// A server comes back with what was on its disk.
    Restore { node: u8 },
    /// Somebody begins to re-admit a node, or to collect its counts, one of which runs out.
    Prepare { who: u8, node: u8, collect: bool },
    /// The request that begins a re-admission is repeated.
    PrepareAgain { who: u8 },
    /// A node executes a request of a re-admission, and the answer is back at once.
    Readmit { who: u8, node: u8 },
    /// A re-admission does not wait for a node any more, a majority having answered. The request may arrive later.
    GiveUp { who: u8, node: u8 },
    /// A request of a re-admission that the node has executed is repeated.
    ActivateAgain { who: u8, node: u8 },
    /// The nodes' clocks show the next second.
    Second,
}

#[derive(Default)]
pub struct World<const N: usize, const C: usize, const R: usize> {
    pub seam: Seam,
    pub budget: Budget,
    /// The fleet has never been started.
    pub blank: bool,
    /// What the nodes' clocks show at first. Counts are collected only in eras below it.
    pub clock: u8,
    /// Crashes as well as flushes: a flush allows more, and is enough for large runs.
    pub crashes: bool,
    /// A request to acquire that comes after the win is lost.
    pub prompt: bool,
    /// Steps that every run begins with: a hint for deep schedules.
    pub lead: Vec<Action>,
    pub(super) crowded: Memo<(Id, u8), bool>,
}

impl<const N: usize, const C: usize, const R: usize> World<N, C, R> {
    pub fn new(budget: Budget, mutant: Option<Mutant>) -> World<N, C, R> {
        World { seam: Seam::new(N, mutant), budget, ..World::default() }
    }

    pub fn first(&self) -> State<N, C, R> {
        let store = if self.blank { Store::default() } else { started(1) };
        let nodes = [Node { store: self.seam.stores.id(&store), disk: 0, life: 0 }; N];
        let (clients, orders) = ([Client::default(); C], [Order::default(); R]);
        let start = State { nodes, clients, orders, budget: self.budget, second: 0 };
        self.lead.iter().fold(start, |state, action| {
            self.step(&state, *action).unwrap_or_else(|| panic!("{action:?} does nothing"))
        })
    }

    fn known(&self, node: Node) -> Known {
        self.seam.known(node.store, node.life, 0)
    }

    pub fn is_crowded(&self, node: Node) -> bool {
        let stores = &self.seam.stores;
        self.crowded.get((node.store, node.life), || is_crowded(stores.get(node.store), node.life))
    }

    pub fn is_admitted(&self, node: Node) -> bool {
        self.known(node).is_some()
    }

    /// Whether some node, if it forgot now, could be given its era once more: a majority of N
    /// among the others remembers, and has not heard of that era.
    pub fn is_forgettable(&self, state: &State<N, C, R>) -> bool {
        (0..N).any(|node| {
            let Some((era, _)) = self.known(state.nodes[node]) else { return false };
            let others = (0..N).filter(|other| *other != node);
            let unaware =
                others.filter(|other| self.known(state.nodes[*other]).is_some_and(|(_, highest)| highest < era));
            unaware.count() >= majority(N)
        })
    }

    /// The assumption that order rests on: only a minority has forgotten at any moment.
    fn may_forget(&self, state: &State<N, C, R>, node: usize) -> bool {
        let others = (0..N).filter(|other| *other != node);
        let forgotten = others.filter(|other| !self.is_admitted(state.nodes[*other])).count();
        state.budget.losses > 0 && forgotten < N - majority(N)
    }

    pub fn candidates(&self, state: &State<N, C, R>, actions: &mut Vec<Action>) {
        use Action::*;
        let budget = state.budget;
        for node in 0..N as u8 {
            for client in 0..C as u8 {
                let slot = state.clients[client as usize].slots[node as usize];
                if !slot.ran {
                    actions.push(Acquire { client, node });
                } else if budget.repeats > 0 {
                    for (expired, lost) in [(true, true), (true, false), (false, false)] {
                        actions.push(AcquireAgain { client, node, expired, lost });
                    }
                }
                if slot.reply != 0 {
                    actions.push(Deliver { client, node });
                }
                if slot.publish != 0 {
                    actions.push(Publish { client, node });
                }
                if slot.ran && self.seam.shares(client.into()) {
                    actions.push(Leave { client, node });
                }
                if budget.renewals && state.clients[client as usize].token != 0 {
                    actions.push(Renew { client, node });
                }
            }
            if self.may_forget(state, node.into()) {
                actions.push(Flush { node });
                if self.crashes {
                    actions.push(Crash { node });
                }
                if state.nodes[node as usize].disk != 0 {
                    actions.push(Restore { node });
                }
            }
            if budget.rollbacks > 0 && budget.losses > 0 {
                actions.push(Save { node });
            }
            for who in 0..R as u8 {
                actions.push(Prepare { who, node, collect: false });
                if self.clock > 0 {
                    actions.push(Prepare { who, node, collect: true });
                }
                let wait = state.orders[who as usize].waits[node as usize];
                if wait.request != 0 && !wait.ran {
                    actions.push(Readmit { who, node });
                    let answered = state.orders[who as usize].answered(wait.phase);
                    if wait.phase < STARTS && answered >= majority(N) {
                        actions.push(GiveUp { who, node });
                    }
                } else if wait.request != 0 && budget.repeats > 0 {
                    actions.push(ActivateAgain { who, node });
                }
            }
        }
        if budget.repeats > 0 {
            actions.extend((0..R as u8).map(|who| PrepareAgain { who }));
        }
        if budget.seconds > 0 {
            actions.push(Second);
        }
    }

    /// The state after `action`; `None` if it changes nothing. A request refused without a trace counts as lost.
    pub fn step(&self, before: &State<N, C, R>, action: Action) -> Option<State<N, C, R>> {
        let mut state = *before;
        match action {
            Action::Acquire { client, node } => {
                self.acquire(&mut state, client, node, false, false)?;
            }
            Action::AcquireAgain { client, node, expired, lost } => {
                state.budget.repeats -= 1;
                self.acquire(&mut state, client, node, expired, lost)?;
            }
            Action::Deliver { client, node } => self.deliver(&mut state, client, node),
            Action::Publish { client, node } => self.publish(&mut state, client, node)?,
            Action::Renew { client, node } => self.renew(&mut state, client, node)?,
            Action::Leave { client, node } => self.leave(&mut state, client, node),
            Action::Flush { node } | Action::Crash { node } | Action::Restore { node } => {
                self.lose(&mut state, action, node.into())?;
            }
            Action::Save { node } => {
                let node = &mut state.nodes[node as usize];
                if node.disk != 0 {
                    return None;
                }
                node.disk = node.store;
                state.budget.rollbacks -= 1;
            }
            Action::Prepare { who, node, collect } => {
                self.prepare(&mut state, who, node, collect)?;
            }
            Action::PrepareAgain { who } => {
                let Order { machine, target, .. } = state.orders[who as usize];
                if machine == 0 {
                    return None;
                }
                state.budget.repeats -= 1;
                let (_, request) = self.seam.order(who, target, false);
                self.execute(&mut state, target, request);
            }
            Action::Readmit { who, node } => self.readmit(&mut state, who, node),
            Action::GiveUp { who, node } => self.give_up(&mut state, who, node),
            Action::ActivateAgain { who, node } => {
                state.budget.repeats -= 1;
                let wait = state.orders[who as usize].waits[node as usize];
                self.execute(&mut state, node, wait.request);
            }
            Action::Second => {
                state.second += 1;
                state.budget.seconds -= 1;
            }
        }
        (State { budget: before.budget, ..state } != *before).then_some(state)
    }

    /// A node executes a request, and its store is what the real one became.
    pub fn execute(&self, state: &mut State<N, C, R>, node: u8, request: Id) -> Id {
        let Node { store, life, .. } = state.nodes[node as usize];
        let second = self.clock + state.second;
        let (store, reply) = self.seam.answer(store, life, 0, second, request);
        state.nodes[node as usize].store = store;
        reply
    }

    pub fn vanish(&self, state: &mut State<N, C, R>, node: u8) {
        let node = &mut state.nodes[node as usize];
        node.store = self.seam.changed(node.store, Change::LockVanishes);
    }
}
