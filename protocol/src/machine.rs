use std::time::Duration;

use super::{Fault, Reply, Request, Time};

/// A client's side of the protocol: it sends requests to nodes, takes their answers, and has an outcome.
///
/// Send what [`next_request`](Machine::next_request) returns, and pass each answer back, until
/// [`outcome`](Machine::outcome) returns `Some`. When every request has been answered, it does.
pub trait Machine {
    /// How it ends.
    type Outcome;

    /// Returns what to send next, and where.
    fn next_request(&mut self) -> Option<(Address, Request)>;

    /// Takes what was answered to the request with this address, or why it was not. An answer that the network
    /// repeated does not count.
    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>);

    /// Returns how it ended, once no answer can change that.
    fn outcome(&self, now: Time) -> Option<Self::Outcome>;

    /// Returns how long to wait before what comes next is sent. A client gives a request up after one `budget`.
    fn pause(&self, _budget: Duration) -> Duration {
        Duration::ZERO
    }
}

/// Where a request goes. Give it back with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The list of nodes. It is the new one where there is one only.
    pub side: Side,
    /// The number of the node in its list.
    pub node: usize,
    /// The phase of the machine. Answers to an earlier one do not count.
    pub phase: u8,
}

impl From<usize> for Address {
    fn from(node: usize) -> Address {
        Address { side: Side::New, node, phase: 0 }
    }
}

/// The list that a request goes to. Send it over a session of that fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The list that the fleet leaves.
    Old,
    /// The list that starts.
    New,
}
