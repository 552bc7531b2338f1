//! Symmetry: states that differ only in how the nodes are numbered are one state.
//!
//! Sound because nodes are alike: a store never learns its number, lives are counted per node, and the machines treat
//! nodes alike (a machine is renumbered by replaying its own history, see `Seam::moved`). Which of the renumbered
//! states stands for all of them does not matter. Clients and re-admissions are alike too; they begin in the order of
//! their numbers, which leaves out the renamed runs.

use crate::model::pool::Id;
use crate::model::state::{Node, Order, Slot, State, Wait};
use crate::model::world::World;

type Key<const C: usize, const R: usize> = (Node, [Slot; C], [(bool, Wait); R]);

impl<const N: usize, const C: usize, const R: usize> World<N, C, R> {
    pub fn canonical(&self, state: State<N, C, R>) -> State<N, C, R> {
        let keys: [Key<C, R>; N] = std::array::from_fn(|node| {
            let slots = state.clients.map(|client| client.slots[node]);
            let is_target = |order: &Order<N>| order.machine != 0 && order.target as usize == node;
            let waits = state.orders.map(|order| (is_target(&order), order.waits[node]));
            (state.nodes[node], slots, waits)
        });
        let mut from: [u8; N] = std::array::from_fn(|node| node as u8);
        from.sort_by(|a, b| keys[*a as usize].cmp(&keys[*b as usize]));
        let mut best: Option<(Vec<Id>, [u8; N])> = None;
        arrangements(&mut from, &keys, 0, &mut |from| {
            let machines = self.machines(&state, from);
            if best.as_ref().is_none_or(|(least, _)| machines < *least) {
                best = Some((machines, *from));
            }
        });
        let Some((machines, from)) = best else { return state };
        self.renumbered(&state, &from, &machines)
    }

    fn machines(&self, state: &State<N, C, R>, from: &[u8; N]) -> Vec<Id> {
        let mut to = [0; N];
        for (new, old) in from.iter().enumerate() {
            to[*old as usize] = new as u8;
        }
        let identity = to.iter().enumerate().all(|(old, new)| old == *new as usize);
        let attempts = state.clients.iter().map(|client| client.machine);
        let machines = attempts.chain(state.orders.iter().map(|order| order.machine));
        machines.map(|id| if identity { id } else { self.seam.moved(id, &to) }).collect()
    }

    fn renumbered(&self, old: &State<N, C, R>, from: &[u8; N], machines: &[Id]) -> State<N, C, R> {
        let mut new = *old;
        new.nodes = from.map(|node| old.nodes[node as usize]);
        for (number, client) in new.clients.iter_mut().enumerate() {
            client.slots = from.map(|node| old.clients[number].slots[node as usize]);
            client.machine = machines[number];
        }
        for (number, order) in new.orders.iter_mut().enumerate() {
            order.waits = from.map(|node| old.orders[number].waits[node as usize]);
            order.machine = machines[C + number];
            if order.machine != 0 {
                let target = from.iter().position(|node| *node == old.orders[number].target);
                order.target = target.map_or(0, |target| target as u8);
            }
        }
        new
    }
}

/// Every order of the nodes in which the keys are sorted.
fn arrangements<K: Eq, const N: usize>(from: &mut [u8; N], keys: &[K; N], at: usize, visit: &mut impl FnMut(&[u8; N])) {
    if at == N {
        return visit(from);
    }
    for other in at..N {
        if keys[from[at] as usize] != keys[from[other] as usize] {
            break;
        }
        from.swap(at, other);
        arrangements(from, keys, at + 1, visit);
        from.swap(at, other);
    }
}
