//! Tokens on engines that count every change: a revision of etcd, a zxid of ZooKeeper. A token is base + count. The
//! engine keeps the base. The first client sets it from its clock, as Redis nodes set an era, so that a service can
//! move between back ends and its tokens still grow. Only an operator raises it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use fencing_protocol::{EPOCH, Fault, Token};

/// The tokens of one second of the clock, as in an era of Redis nodes.
const PER_SECOND: u64 = 1_000_000;

/// Returns the base for an engine that has none yet.
pub(crate) fn first_base() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(EPOCH).as_secs().max(1).saturating_mul(PER_SECOND)
}

/// Returns the token of a count, if the sum fits into one.
pub(crate) fn token(base: u64, count: i64) -> Result<Token, Fault> {
    let sum = base.saturating_add_signed(count);
    Token::new(sum).map_err(|error| Fault::InvalidReply(format!("base {base} + {count}: {error}")))
}

/// The largest count, base included, that an engine has answered to this client. A cluster that was restored from a
/// backup counts from an earlier point, under the same identity.
#[derive(Debug, Default)]
pub(crate) struct Largest(AtomicU64);

impl Largest {
    /// Returns it as it is before a request.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes the answer to a request, unless the count has gone back. `before` was read before it was sent.
    pub(crate) fn take(&self, before: u64, count: u64) -> Result<(), Fault> {
        if count <= before {
            return Err(went_back(before, count));
        }
        self.0.fetch_max(count, Ordering::AcqRel);
        Ok(())
    }
}

pub(crate) fn went_back(before: u64, count: u64) -> Fault {
    Fault::Refused(format!(
        "its tokens went back from {before} to {count}: it was restored from a backup or created again; stop the \
         clients and run `fencing raise`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_goes_back_is_refused() {
        let largest = Largest::default();
        let before = largest.get();
        // Answers to requests that were sent at one time arrive in any order.
        largest.take(before, 51).unwrap();
        largest.take(before, 50).unwrap();
        assert!(largest.take(largest.get(), 21).is_err());
        assert_eq!(largest.get(), 51);
    }

    #[test]
    fn a_token_has_fifteen_digits_at_most() {
        assert_eq!(token(34_000_000, 7).unwrap().get(), 34_000_007);
        assert!(token(Token::MAX.get(), 1).is_err());
        assert!(token(u64::MAX, 1).is_err());
        assert!(token(first_base(), 0).is_ok());
    }
}
