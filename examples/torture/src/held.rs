//! What a client gets from the lock service, of whichever kind.

use std::time::Duration;

use fencing::lock::{AcquireError, LeaseSet, SharedLease};
use fencing::{Lease, Redlock, Resource, Sequencer};

use support::history::Outcome;

/// How a client asks.
#[derive(Clone, Copy)]
pub enum Wish {
    /// For one resource, alone.
    Alone,
    /// For a part in the lock of one resource.
    Part,
    /// For all resources, with one call.
    All,
    /// For whichever is free.
    Any,
}

impl Wish {
    pub fn drawn(rng: &mut fastrand::Rng) -> Wish {
        match rng.u8(0..10) {
            0..5 => Wish::Alone,
            5..8 => Wish::Part,
            8 => Wish::All,
            _ => Wish::Any,
        }
    }
}

/// What was granted.
pub enum Held {
    Alone(Lease),
    Part(SharedLease),
    All(LeaseSet),
}

impl Held {
    /// Asks for the first of the resources, or for more than that.
    pub async fn acquire(
        redlock: &Redlock,
        wish: Wish,
        resources: &[Resource],
    ) -> Result<Held, AcquireError> {
        match wish {
            Wish::Alone => redlock.acquire(&resources[0]).await.map(Held::Alone),
            Wish::Part => redlock.acquire_shared(&resources[0]).await.map(Held::Part),
            Wish::All => redlock.acquire_all(resources).await.map(Held::All),
            Wish::Any => redlock.acquire_any(resources).await.map(Held::Alone),
        }
    }

    /// Each resource with its token.
    pub fn sequencers(&self) -> Vec<Sequencer> {
        match self {
            Held::Alone(lease) => vec![lease.sequencer()],
            Held::Part(lease) => vec![lease.sequencer()],
            Held::All(lease) => lease.sequencers().to_vec(),
        }
    }

    /// A grant with this token, as the history has it.
    pub fn outcome(&self, of: &Sequencer) -> Outcome {
        match self {
            Held::Part(_) => Outcome::Shared(of.token.get()),
            Held::Alone(_) | Held::All(_) => Outcome::Granted(of.token.get()),
        }
    }

    pub fn valid_for(&self) -> Duration {
        match self {
            Held::Alone(lease) => lease.valid_for(),
            Held::Part(lease) => lease.valid_for(),
            Held::All(lease) => lease.valid_for(),
        }
    }

    /// Releases it, and asks no further how that went.
    pub async fn release(self) {
        match self {
            Held::Alone(lease) => drop(lease.release().await),
            Held::Part(lease) => drop(lease.release().await),
            Held::All(lease) => drop(lease.release().await),
        }
    }
}
