//! One state of the world: small, flat, and copied by value.

use crate::model::pool::Id;
use crate::model::seam::Seam;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    pub store: Id,
    /// An older state that a crash may bring back; zero for none.
    pub disk: Id,
    pub life: u8,
}

/// What is under way between one client and one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The request to acquire has been executed at least once.
    pub ran: bool,
    /// A grant on its way back; zero for none.
    pub reply: Id,
    /// A publish on its way there; zero for none.
    pub publish: Id,
    pub renewal: Vote,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vote {
    #[default]
    None,
    Extended,
    Healed,
}

/// One attempt: a client that tries again is a further client that began later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client<const N: usize> {
    /// Zero before it begins.
    pub machine: Id,
    /// The largest token that had been returned to anybody when it began.
    pub floor: u32,
    /// Its own token must be above: the floor, or of those that share it, the largest returned to one that does not.
    pub floor_alone: u32,
    /// Its own token once it is granted; zero before.
    pub token: u32,
    /// The largest token returned to anybody, itself included, once it was granted.
    pub peak: u32,
    /// The largest token returned to anybody when its renewal began.
    pub renewal_floor: u32,
    pub slots: [Slot; N],
}

/// One re-admission, and what it has sent to each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order<const N: usize> {
    pub machine: Id,
    pub target: u8,
    pub done: bool,
    pub waits: [Wait; N],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    pub phase: u8,
    /// Zero for none.
    pub request: Id,
    pub ran: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State<const N: usize, const C: usize, const R: usize> {
    pub nodes: [Node; N],
    pub clients: [Client<N>; C],
    pub orders: [Order<N>; R],
    pub budget: Budget,
    pub second: u8,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget {
    /// Crashes and flushes.
    pub losses: u8,
    /// Of the losses, how many may bring back an older state.
    pub rollbacks: u8,
    /// Requests executed a second time.
    pub repeats: u8,
    /// Eras taken for collection.
    pub collections: u8,
    /// Seconds that pass on the nodes' clocks.
    pub seconds: u8,
    pub renewals: bool,
}

impl<const N: usize> Default for Client<N> {
    fn default() -> Client<N> {
        let slots = [Slot::default(); N];
        Client { machine: 0, floor: 0, floor_alone: 0, token: 0, peak: 0, renewal_floor: 0, slots }
    }
}

impl<const N: usize> Default for Order<N> {
    fn default() -> Order<N> {
        Order { machine: 0, target: 0, done: false, waits: [Wait::default(); N] }
    }
}

impl<const N: usize> Order<N> {
    pub fn answered(&self, phase: u8) -> usize {
        self.waits.iter().filter(|wait| wait.ran && wait.phase == phase).count()
    }
}

impl<const N: usize, const C: usize, const R: usize> State<N, C, R> {
    /// The largest token that has been returned to anybody.
    pub fn highest(&self) -> u32 {
        self.clients.iter().map(|client| client.token).max().unwrap_or(0)
    }

    /// Two leases, the second begun after the first was returned.
    pub fn in_order(&self) -> bool {
        self.clients.iter().any(|client| client.token > client.floor && client.floor > 0)
    }

    /// The largest token that has been returned to a client that does not share the lock.
    pub fn highest_alone(&self, seam: &Seam) -> u32 {
        let clients = self.clients.iter().enumerate();
        let alone = clients.filter(|(number, _)| !seam.shares(*number));
        alone.map(|(_, client)| client.token).max().unwrap_or(0)
    }

    /// I1: no token twice, unless both share the lock.
    pub fn unique(&self, seam: &Seam) -> bool {
        let same = |a: usize, b: usize| {
            let (one, other) = (self.clients[a].token, self.clients[b].token);
            one != 0 && one == other && !(seam.shares(a) && seam.shares(b))
        };
        (0..C).all(|a| (0..a).all(|b| !same(a, b)))
    }

    /// I2: larger than all returned before it began. Those that share the lock may have equal tokens, but no smaller.
    pub fn ordered(&self) -> bool {
        let won = self.clients.iter().filter(|client| client.token != 0);
        won.clone().all(|client| client.token > client.floor_alone && client.token >= client.floor)
    }
}
