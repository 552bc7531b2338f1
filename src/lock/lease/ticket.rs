use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::sequencer::Sequencer;

/// What another process needs to go on with a lease: the argument of [`Lock::resume`](crate::lock::Lock::resume).
///
/// Who has it can renew and release the lease: keep it secret. Its text is three lines: the TTL in milliseconds, the
/// owner and the sequencer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTicket {
    /// The resource and its token.
    pub sequencer: Sequencer,
    /// The TTL of the lease: a renewal lets it last for that long again.
    pub ttl: Duration,
    /// The owner of the lock, as the back end writes it.
    pub(in crate::lock) owner: String,
}

/// A text is not that of a [`LeaseTicket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the ticket of a lease")]
pub struct LeaseTicketError;

impl fmt::Display for LeaseTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}", self.ttl.as_millis(), self.owner, self.sequencer)
    }
}

impl FromStr for LeaseTicket {
    type Err = LeaseTicketError;

    fn from_str(text: &str) -> Result<LeaseTicket, LeaseTicketError> {
        let mut lines = text.splitn(3, '\n');
        let mut line = || lines.next().ok_or(LeaseTicketError);
        let (ttl, owner, sequencer) = (line()?, line()?, line()?);
        let ttl = Duration::from_millis(ttl.parse().map_err(|_| LeaseTicketError)?);
        let sequencer = sequencer.parse().map_err(|_| LeaseTicketError)?;
        Ok(LeaseTicket { sequencer, ttl, owner: owner.to_owned() })
    }
}
