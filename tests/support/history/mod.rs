//! Histories: who asked when and got which token, what the storage answered to each write,
//! what it holds at the end. One checker for simulation, torture and the command line.
//!
//! The invariants, for every resource:
//!
//! - **I1** no token is granted twice, but to leases that share a lock.
//! - **I2** what was asked for after the answer of a grant gets a larger token; if both share the lock, not a smaller one.
//! - **I3** once the storage has accepted a token, it accepts nothing with a smaller one.
//! - **I4** what is stored is the replay of the accepted writes in their order.
//! - **I5** no answer says held or written of what is not, or refused of what is.
//! - **I6** after the faults are healed every client gets a lease and writes.

mod check;
mod report;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use report::{Invariant, Report, Violation, commit};

/// Nanoseconds of one clock for the whole history.
pub type At = u64;

/// What happened, as the clients and the one who makes the faults wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    Attempt(Attempt),
    Write(Write),
    /// No majority answered this client, or nobody, in all of this time.
    Outage {
        client: Option<u32>,
        from: At,
        to: At,
    },
    /// No fault is left from then on.
    Healed(At),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub client: u32,
    pub resource: String,
    pub asked: At,
    pub answered: At,
    pub outcome: Outcome,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Granted(u64),
    /// The same, in a lock that others may share.
    Shared(u64),
    Held,
    NoQuorum,
}

impl Outcome {
    pub fn token(self) -> Option<u64> {
        match self {
            Outcome::Granted(token) | Outcome::Shared(token) => Some(token),
            Outcome::Held | Outcome::NoQuorum => None,
        }
    }

    fn is_shared(self) -> bool {
        matches!(self, Outcome::Shared(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub client: u32,
    pub resource: String,
    pub token: u64,
    /// No other write has it.
    pub value: String,
    pub sent: At,
    pub answered: At,
    pub answer: Answer,
}

/// What the storage said of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Accepted,
    /// Stale: it has seen this token.
    Refused(u64),
    /// Not written, for another reason.
    Failed,
    /// No answer, or none that says.
    InDoubt,
}

/// A write as the storage holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub resource: String,
    pub token: u64,
    pub value: String,
}

#[derive(Debug, Clone, Default)]
pub struct History {
    pub events: Vec<Event>,
    /// The storage's own log of what it accepted, in its order.
    pub accepted: Vec<Stored>,
    /// What is stored at the end, by resource.
    pub stored: BTreeMap<String, Stored>,
}

impl History {
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.events.iter().filter_map(|event| if let Event::Attempt(attempt) = event { Some(attempt) } else { None })
    }

    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.events.iter().filter_map(|event| if let Event::Write(write) = event { Some(write) } else { None })
    }
}
