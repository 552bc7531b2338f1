//! For each rule the small world in which it matters, and worlds to play in.

use crate::model::lists::Lists;
use crate::model::mutant::Mutant;
use crate::model::script::actions;
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

    fn after(self, lead: &str) -> Case {
        Case::Locks(Locks { lead: actions(lead), ..self })
    }
}

/// Somebody who wants the world of a case, whatever its size.
pub trait Visitor {
    type Out;
    fn locks<const N: usize, const C: usize, const R: usize>(self, world: World<N, C, R>) -> Self::Out;
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
            Mutant::NoPublish | Mutant::PublishToAnyOwner | Mutant::LateGrantsCount | Mutant::MajorityOfAnswers => {
                Case::Locks(locks(0, calm))
            }
            Mutant::PublishBelowCount => Case::Locks(locks(0, repeat)),
            Mutant::EmptyNodesVote => Case::Locks(locks(0, losses(1))),
            Mutant::NobodyIsRead | Mutant::NoNewEra => Case::Locks(locks(1, losses(1))),
            Mutant::PublishToAnyMemory => Case::Locks(locks(1, rollback)),
            Mutant::NoReserve => locks(2, losses(2)).after(READMISSION),
            Mutant::NoConfirm => Locks::new(5, 2, 6, losses(4)).after(PROMISES),
            Mutant::ActivateAnyMemory => locks(2, losses(2)).after(RACE),
            Mutant::ActivateDropsAlways => locks(2, losses(1)).after(RACE),
            // Node 1 forgets, and counts are to be collected on node 0 meanwhile.
            Mutant::StartsWhileRemembered => locks(2, Budget { losses: 2, collections: 1, ..calm }).after(COLLECTING),
            Mutant::NoStartPromise | Mutant::ReadsBeforeMarks => {
                Case::Lists { servers: 3, clients: 2, old: vec![], new: vec![0, 1, 2] }
            }
            Mutant::NoFleetCheck => Case::Lists { servers: 4, clients: 1, old: vec![0, 1, 2], new: vec![0, 1, 3] },
            Mutant::HealsOverCounts | Mutant::RenewalOfOne => Case::Locks(locks(0, renewals)),
            Mutant::SharedIsNotCounted => Case::Locks(Locks { shared: 0b10, ..locks(0, calm) }),
            Mutant::SharedHealsBelowToken => Locks { shared: 0b110, ..Locks::new(3, 3, 0, renewals) }.after(ALONE),
        }
    }

    /// A world to play in, if any with so many nodes: four attempts, the last two share the lock; four re-admissions.
    pub fn free(nodes: usize) -> Option<Case> {
        let budget = Budget { losses: 4, repeats: 2, rollbacks: 1, renewals: true, ..Budget::default() };
        let locks = Locks { shared: 0b1100, ..Locks::new(nodes, 4, 4, budget) };
        matches!(nodes, 3 | 5).then_some(Case::Locks(locks))
    }

    /// A world to play in: nodes a, b, c are moved to a, b, d.
    pub fn moving() -> Case {
        Case::Lists { servers: 4, clients: 3, old: vec![0, 1, 2], new: vec![0, 1, 3] }
    }

    /// Makes the world for somebody, the rule being left out if there is one.
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

fn world<const N: usize, const C: usize, const R: usize>(locks: &Locks, mutant: Option<Mutant>) -> World<N, C, R> {
    let mut world = World::new(locks.budget, mutant);
    world.seam.shared = locks.shared;
    world.prompt = locks.budget.renewals && locks.shared == 0;
    world.clock = if locks.budget.collections > 0 { 100 } else { 0 };
    world
}

/// Started by all clients, or moved by one.
fn lists<const Z: usize, const M: usize>(old: &[u8], new: &[u8], mutant: Option<Mutant>) -> Lists<Z, M> {
    let mut world = Lists::new(old, new, mutant);
    (world.starters, world.movers) = if old.is_empty() { (M, 0) } else { (0, 1) };
    world
}

/// A collection reads, and then starts: marked, looked at, promised, activated at one node.
const COLLECTING: &str = "flush@1, collect 0@0, readmit 0@120120120121, acquire 0@12";

/// Node 0 forgets and is brought back.
const READMISSION: &str = "flush@0, prepare 0@0, readmit 0@12120";

/// Node 0 forgets, and two clients are about to bring it back.
const RACE: &str = "flush@0, prepare 0@0, prepare 1@0, readmit 0@12, readmit 1@12, readmit 0@120, \
    readmit 1@12";

/// Two clients began to bring node 0 back, and a third goes on. Nodes 1 and 2 promise, and forget that; node 0 is back
/// all the same, and an attempt is granted there. Then it forgets again, is brought back, and the attempt is won.
const PROMISES: &str = "flush@0, prepare 0@0, readmit 0@123, giveup 0@4, readmit 0@1, prepare 1@0, \
    readmit 1@123, giveup 1@4, readmit 1@1, prepare 2@0, readmit 2@123, giveup 2@4, readmit 2@1, flush@1, \
    prepare 3@1, readmit 3@234, giveup 3@0, readmit 3@234, giveup 3@0, readmit 3@1, readmit 2@2, flush@2, \
    prepare 4@2, readmit 4@134, giveup 4@0, readmit 4@134, giveup 4@0, readmit 4@2, readmit 2@3, giveup 2@4, \
    readmit 2@0, acquire 0@034, deliver 0@034, flush@0, prepare 5@0, readmit 5@124, giveup 5@3, \
    readmit 5@124, giveup 5@3, readmit 5@0, publish 0@34";

const ALONE: &str = "acquire 0@01, deliver 0@01";
