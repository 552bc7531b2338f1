use crate::Token;

/// Counts per era: the low six decimal digits of a token.
const COUNTS: u64 = 1_000_000;

/// A token as a node counts it: `era` is the high nine decimal digits, `count` the low six.
///
/// Ordered by era, then by count, which is the order of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// It grows when a node is re-admitted or counts are collected.
    pub era: u64,
    /// It grows by one with every grant of the resource within the era.
    pub count: u64,
}

impl Stamp {
    /// The largest era.
    pub const MAX_ERA: u64 = 999_999_999;
    /// The largest count within an era.
    pub const MAX_COUNT: u64 = COUNTS - 1;

    /// Returns the token; `None` if a part is out of range or both are zero: no sound node says that.
    pub fn token(self) -> Option<Token> {
        if self.era > Stamp::MAX_ERA || self.count > Stamp::MAX_COUNT {
            return None;
        }
        Token::new(self.era * COUNTS + self.count).ok()
    }
}

impl From<Token> for Stamp {
    fn from(token: Token) -> Stamp {
        Stamp { era: token.get() / COUNTS, count: token.get() % COUNTS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_in_decimal_and_back() {
        let stamp = Stamp { era: 28, count: 33 };
        let token = stamp.token().unwrap();
        assert_eq!(token.get(), 28_000_033);
        assert_eq!(Stamp::from(token), stamp);
        assert_eq!(Stamp { era: 999_999_999, count: 999_999 }.token(), Some(Token::MAX));
    }

    #[test]
    fn nonsense_is_no_token() {
        assert_eq!(Stamp { era: 0, count: 0 }.token(), None);
        assert_eq!(Stamp { era: 1_000_000_000, count: 0 }.token(), None);
        assert_eq!(Stamp { era: u64::MAX, count: u64::MAX }.token(), None);
        assert_eq!(Stamp { era: 1, count: 1_000_000 }.token(), None);
    }
}
