//! A client: one machine of `protocol`, and whose it is.

use fencing_protocol::{
    Acquire, Owner, Readmit, Relocate, Renew, Reply, Request, Resource, Side, Time, Token,
};

pub enum Machine {
    /// `floor`: the largest token that had been returned when it began.
    Attempt { machine: Acquire, resource: Resource, owner: Owner, floor: Option<Token>, won: bool },
    /// A re-admission, or a collection.
    Order { machine: Readmit, collect: bool },
    /// A renewal of a lease that was won.
    Renew { machine: Renew },
    /// A move to the other list.
    Move { machine: Relocate },
}

pub struct Client {
    pub number: u64,
    /// The list that it speaks to; a move speaks to both.
    pub list: usize,
    pub machine: Machine,
}

impl Client {
    pub fn phase(&self) -> u8 {
        match &self.machine {
            Machine::Order { machine, .. } => machine.phase(),
            Machine::Move { machine } => machine.phase(),
            Machine::Attempt { .. } | Machine::Renew { .. } => 0,
        }
    }

    pub fn next_request(&mut self) -> Option<(usize, usize, Request)> {
        let (node, request) = match &mut self.machine {
            Machine::Attempt { machine, .. } => machine.next_request()?,
            Machine::Order { machine, .. } => machine.next_request()?,
            Machine::Renew { .. } => return None,
            Machine::Move { machine } => {
                let (side, node, request) = machine.next_request()?;
                return Some((usize::from(side == Side::New), node, request));
            }
        };
        Some((self.list, node, request))
    }

    pub fn on_reply(&mut self, phase: u8, node: usize, reply: Reply) {
        match &mut self.machine {
            Machine::Attempt { machine, .. } => machine.on_reply(node, Ok(reply)),
            Machine::Order { machine, .. } => machine.on_reply(phase, node, Ok(reply)),
            Machine::Renew { machine } => machine.on_reply(node, Ok(reply)),
            Machine::Move { machine } => machine.on_reply(phase, node, Ok(reply)),
        }
    }

    /// The token of an attempt that is won.
    pub fn token(&self) -> Option<Token> {
        match &self.machine {
            Machine::Attempt { machine, .. } => {
                Some(machine.outcome(Time::default())?.ok()?.locks.head.1)
            }
            _ => None,
        }
    }

    /// Whether a re-admission or a move is over, and how it ended.
    pub fn is_done(&self) -> Option<bool> {
        match &self.machine {
            Machine::Order { machine, .. } => Some(machine.outcome()?.is_ok()),
            Machine::Move { machine } => Some(machine.outcome()?.is_ok()),
            Machine::Attempt { .. } | Machine::Renew { .. } => None,
        }
    }
}
