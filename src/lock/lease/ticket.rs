use std::str::FromStr;
use std::time::Duration;

use crate::sequencer::Sequencer;

/// What another process needs to go on with a lease: the argument of [`Lock::resume`](crate::lock::Lock::resume).
///
/// Every process with the ticket can renew and release the lease: keep it secret. Its text is three lines: the TTL and
/// the lock-delay in milliseconds, the owner, and the sequencer.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq)]
#[display("{} {}\n{owner}\n{sequencer}", ttl.as_millis(), lock_delay.as_millis())]
#[non_exhaustive]
pub struct LeaseTicket {
    /// The resource and its token.
    pub sequencer: Sequencer,
    /// The TTL of the lease: a renewal lets it last for that long again.
    pub ttl: Duration,
    /// For how long its lock stays held after the end of the lease.
    pub lock_delay: Duration,
    /// The owner of the lock, as the back end writes it.
    pub(in crate::lock) owner: String,
}

/// A text is not that of a [`LeaseTicket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the ticket of a lease")]
pub struct LeaseTicketError;

impl FromStr for LeaseTicket {
    type Err = LeaseTicketError;

    fn from_str(text: &str) -> Result<LeaseTicket, LeaseTicketError> {
        let mut lines = text.splitn(3, '\n');
        let mut line = || lines.next().ok_or(LeaseTicketError);
        let (times, owner, sequencer) = (line()?, line()?, line()?);
        let (ttl, lock_delay) = times.split_once(' ').ok_or(LeaseTicketError)?;
        let time = |text: &str| text.parse().map(Duration::from_millis).map_err(|_| LeaseTicketError);
        let sequencer = sequencer.parse().map_err(|_| LeaseTicketError)?;
        Ok(LeaseTicket { sequencer, ttl: time(ttl)?, lock_delay: time(lock_delay)?, owner: owner.to_owned() })
    }
}
