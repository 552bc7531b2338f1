//! Any machine of the protocol, as the clients of these worlds have them.

use fencing_protocol::{
    Acquire, Address, Fault, Machine, Readmit, Relocate, Renew, Renewed, Reply, Request, Time, Token,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnyMachine {
    Acquire(Acquire),
    Renew(Renew),
    Readmit(Readmit),
    Relocate(Relocate),
}

impl Machine for AnyMachine {
    /// With the token of an attempt that is won.
    type Outcome = Result<Option<Token>, ()>;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        match self {
            AnyMachine::Acquire(machine) => machine.next_request(),
            AnyMachine::Renew(machine) => machine.next_request(),
            AnyMachine::Readmit(machine) => machine.next_request(),
            AnyMachine::Relocate(machine) => machine.next_request(),
        }
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        match self {
            AnyMachine::Acquire(machine) => machine.on_reply(from, reply),
            AnyMachine::Renew(machine) => machine.on_reply(from, reply),
            AnyMachine::Readmit(machine) => machine.on_reply(from, reply),
            AnyMachine::Relocate(machine) => machine.on_reply(from, reply),
        }
    }

    fn outcome(&self, now: Time) -> Option<Result<Option<Token>, ()>> {
        let outcome = match self {
            AnyMachine::Acquire(machine) => machine.outcome(now)?.map(|won| Some(won.locks.head.1)).ok(),
            AnyMachine::Renew(machine) => matches!(machine.outcome(now)?, Ok(Renewed::Until(_))).then_some(None),
            AnyMachine::Readmit(machine) => machine.outcome(now)?.map(|_| None).ok(),
            AnyMachine::Relocate(machine) => machine.outcome(now)?.map(|()| None).ok(),
        };
        Some(outcome.ok_or(()))
    }
}
