//! A client: one machine of `protocol`, and what it is for.

use fencing_protocol::{Address, Machine, Owner, Request, Resource, Side, Time, Token};

use crate::machine::AnyMachine;

pub enum Task {
    /// `floor`: the largest token that had been returned when it began.
    Attempt {
        resource: Resource,
        owner: Owner,
        floor: Option<Token>,
        won: bool,
    },
    Renew,
    Readmit,
    Collect,
    /// A move to the other list.
    Move,
}

pub struct Client {
    pub number: u64,
    /// The list that it speaks to; a move speaks to both.
    pub list: usize,
    pub task: Task,
    pub machine: AnyMachine,
}

impl Client {
    /// The next request, and the list that it goes to.
    pub fn next_request(&mut self) -> Option<(usize, Address, Request)> {
        let (to, request) = self.machine.next_request()?;
        Some((if to.side == Side::Old { 0 } else { self.list }, to, request))
    }

    pub fn outcome(&self) -> Option<Result<Option<Token>, ()>> {
        self.machine.outcome(Time::default())
    }

    /// Whether it asks for a lock, or renews one.
    pub fn is_of_a_lock(&self) -> bool {
        matches!(self.task, Task::Attempt { .. } | Task::Renew)
    }
}
