//! For each rule the small world in which it matters, and worlds to play in.

use crate::model::lists::Lists;
use crate::model::mutant::Mutant;
use crate::model::state::Budget;
use crate::model::world::{Action, World};

/// What a world is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Case {
    /// One list of nodes, and clients that lock.
    Locks(Locks),
    /// Two lists of nodes, of which the new one is started or moved to.
    Lists { servers: usize, clients: usize, old: Vec<u8>, new: Vec<u8> },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    pub nodes: usize,
    /// Attempts.
    pub clients: usize,
    /// Re-admissions.
    pub orders: usize,
    pub budget: Budget,
    /// Which clients share the lock: one bit for each.
    pub shared: u8,
    /// Steps that a search begins with: a hint for deep schedules.
    pub lead: Vec<Action>,
}

impl Locks {
    fn new(nodes: usize, clients: usize, orders: usize, budget: Budget) -> Locks {
        Locks { nodes, clients, orders, budget, ..Locks::default() }
    }

    fn after(self, lead: Vec<Action>) -> Case {
        Case::Locks(Locks { lead, ..self })
    }
}

/// Somebody who wants the world of a case, whatever its size.
pub trait Visitor {
    type Out;
    fn locks<const N: usize, const C: usize, const R: usize>(
        self,
        world: World<N, C, R>,
    ) -> Self::Out;
    fn lists<const Z: usize, const M: usize>(self, world: Lists<Z, M>) -> Self::Out;
}

impl Case {
    /// The smallest world in which the rule is known to matter.
    pub fn of(mutant: Mutant) -> Case {
        let calm = Budget::default();
        let losses = |losses| Budget { losses, ..calm };
        let renewals = Budget { renewals: true, ..calm };
        let rollback = Budget { losses: 1, rollbacks: 1, ..calm };
        let repeat = Budget { repeats: 1, ..calm };
        let locks = |orders, budget| Locks::new(3, 2, orders, budget);
        match mutant {
            Mutant::NoPublish
            | Mutant::PublishToAnyOwner
            | Mutant::LateGrantsCount
            | Mutant::MajorityOfAnswers => Case::Locks(locks(0, calm)),
            Mutant::PublishBelowCount => Case::Locks(locks(0, repeat)),
            Mutant::EmptyNodesVote => Case::Locks(locks(0, losses(1))),
            Mutant::NobodyIsRead | Mutant::NoNewEra => Case::Locks(locks(1, losses(1))),
            Mutant::PublishToAnyMemory => Case::Locks(locks(1, rollback)),
            Mutant::NoReserve => locks(2, losses(2)).after(readmission()),
            Mutant::NoConfirm => Locks::new(5, 2, 6, losses(4)).after(promises()),
            Mutant::ActivateAnyMemory => locks(2, losses(2)).after(race()),
            Mutant::ActivateDropsAlways => locks(2, losses(1)).after(race()),
            // Node 1 forgets, and counts are to be collected on node 0 meanwhile.
            Mutant::StartsWhileRemembered => {
                locks(2, Budget { losses: 2, collections: 1, ..calm }).after(collecting())
            }
            Mutant::NoStartPromise | Mutant::ReadsBeforeMarks => {
                Case::Lists { servers: 3, clients: 2, old: vec![], new: vec![0, 1, 2] }
            }
            Mutant::NoFleetCheck => {
                Case::Lists { servers: 4, clients: 1, old: vec![0, 1, 2], new: vec![0, 1, 3] }
            }
            Mutant::HealsOverCounts | Mutant::RenewalOfOne => Case::Locks(locks(0, renewals)),
            Mutant::SharedIsNotCounted => Case::Locks(Locks { shared: 0b10, ..locks(0, calm) }),
            Mutant::SharedHealsBelowToken => {
                Locks { shared: 0b110, ..Locks::new(3, 3, 0, renewals) }.after(alone())
            }
        }
    }

    /// A world to play in: four attempts, of which the last two share the lock, and four re-admissions.
    /// `None` if there is none with so many nodes.
    pub fn free(nodes: usize) -> Option<Case> {
        let budget =
            Budget { losses: 4, repeats: 2, rollbacks: 1, renewals: true, ..Budget::default() };
        let locks = Locks { shared: 0b1100, ..Locks::new(nodes, 4, 4, budget) };
        matches!(nodes, 3 | 5).then_some(Case::Locks(locks))
    }

    /// A world to play in: nodes a, b, c are moved to a, b, d.
    pub fn moving() -> Case {
        Case::Lists { servers: 4, clients: 3, old: vec![0, 1, 2], new: vec![0, 1, 3] }
    }

    /// Makes the world for somebody, the rule being left out if there is one.
    ///
    /// # Panics
    ///
    /// If no case has a world of that size.
    pub fn visit<V: Visitor>(&self, mutant: Option<Mutant>, visitor: V) -> V::Out {
        match self {
            Case::Locks(locks) => match (locks.nodes, locks.clients, locks.orders) {
                (3, 2, 0) => visitor.locks::<3, 2, 0>(world(locks, mutant)),
                (3, 2, 1) => visitor.locks::<3, 2, 1>(world(locks, mutant)),
                (3, 2, 2) => visitor.locks::<3, 2, 2>(world(locks, mutant)),
                (3, 3, 0) => visitor.locks::<3, 3, 0>(world(locks, mutant)),
                (5, 2, 6) => visitor.locks::<5, 2, 6>(world(locks, mutant)),
                (3, 4, 4) => visitor.locks::<3, 4, 4>(world(locks, mutant)),
                (5, 4, 4) => visitor.locks::<5, 4, 4>(world(locks, mutant)),
                size => panic!("no world is of the size {size:?}"),
            },
            Case::Lists { servers, clients, old, new } => match (servers, clients) {
                (3, 2) => visitor.lists::<3, 2>(lists(old, new, mutant)),
                (4, 1) => visitor.lists::<4, 1>(lists(old, new, mutant)),
                (4, 3) => visitor.lists::<4, 3>(lists(old, new, mutant)),
                size => panic!("no two lists are of the size {size:?}"),
            },
        }
    }
}

fn world<const N: usize, const C: usize, const R: usize>(
    locks: &Locks,
    mutant: Option<Mutant>,
) -> World<N, C, R> {
    let mut world = World::new(locks.budget, mutant);
    world.seam.shared = locks.shared;
    world.prompt = locks.budget.renewals && locks.shared == 0;
    world.clock = if locks.budget.collections > 0 { 100 } else { 0 };
    world
}

/// Started by all clients, or moved by one.
fn lists<const Z: usize, const M: usize>(
    old: &[u8],
    new: &[u8],
    mutant: Option<Mutant>,
) -> Lists<Z, M> {
    let mut world = Lists::new(old, new, mutant);
    (world.starters, world.movers) = if old.is_empty() { (M, 0) } else { (0, 1) };
    world
}

fn begin(who: u8, node: u8) -> Vec<Action> {
    vec![Action::Prepare { who, node, collect: false }]
}

fn flush(node: u8) -> Vec<Action> {
    vec![Action::Flush { node }]
}

fn readmit(who: u8, nodes: &[u8]) -> Vec<Action> {
    nodes.iter().map(|node| Action::Readmit { who, node: *node }).collect()
}

fn acquire(nodes: &[u8]) -> Vec<Action> {
    nodes.iter().map(|node| Action::Acquire { client: 0, node: *node }).collect()
}

fn deliver(nodes: &[u8]) -> Vec<Action> {
    nodes.iter().map(|node| Action::Deliver { client: 0, node: *node }).collect()
}

/// Read, then a start: marked, looked at, promised, activated at one node.
fn collecting() -> Vec<Action> {
    let collect = vec![Action::Prepare { who: 0, node: 0, collect: true }];
    let rounds = readmit(0, &[1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1]);
    [flush(1), collect, rounds, acquire(&[1, 2])].concat()
}

/// Node 0 forgets and is brought back.
fn readmission() -> Vec<Action> {
    [flush(0), begin(0, 0), readmit(0, &[1, 2, 1, 2, 0])].concat()
}

/// Node 0 forgets, and two clients are about to bring it back.
fn race() -> Vec<Action> {
    let rounds = [(0, &[1, 2][..]), (1, &[1, 2]), (0, &[1, 2, 0]), (1, &[1, 2])];
    let rounds = rounds.map(|(who, nodes)| readmit(who, nodes));
    [flush(0), begin(0, 0), begin(1, 0), rounds.concat()].concat()
}

/// Two clients began to bring node 0 back, and a third one goes on with it. Nodes 1 and 2
/// promise, and forget that; node 0 is back all the same, and an attempt is granted there.
/// Then it forgets once more, and is brought back; the attempt is won.
fn promises() -> Vec<Action> {
    let whole = |who, node, others: &[u8]| {
        [begin(who, node), readmit(who, others), readmit(who, others), readmit(who, &[node])]
            .concat()
    };
    [
        flush(0),
        [0, 1, 2].map(|who| [begin(who, 0), readmit(who, &[1, 2, 3, 1])].concat()).concat(),
        flush(1),
        whole(3, 1, &[2, 3, 4]),
        readmit(2, &[2]),
        flush(2),
        whole(4, 2, &[1, 3, 4]),
        readmit(2, &[3, 0]),
        acquire(&[0, 3, 4]),
        deliver(&[0, 3, 4]),
        flush(0),
        begin(5, 0),
        readmit(5, &[1, 2, 4, 1, 2, 4, 0]),
        [3, 4].map(|node| Action::Publish { client: 0, node }).to_vec(),
    ]
    .concat()
}

/// A client has held the lock alone, on nodes 0 and 1.
fn alone() -> Vec<Action> {
    [acquire(&[0, 1]), deliver(&[0, 1])].concat()
}
