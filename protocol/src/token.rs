//! The fencing token.

use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fencing token: an integer from 1 to 999,999,999,999,999 that a lease carries and a storage compares.
///
/// Lua, JavaScript, JSON, an HTTP structured-field integer (RFC 9651) and a signed 64-bit SQL column all hold fifteen
/// decimal digits exactly. A token comes from a lease. Compare it and store it; never compute with it.
///
/// The idea is Martin Kleppmann's, "How to do distributed locking" (2016).
#[derive(Debug, derive_more::Display, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Token(NonZeroU64);

/// Why a number or a text is not a valid [`Token`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The number is zero, negative, or has more than fifteen digits.
    #[error("a fencing token must lie between 1 and 999999999999999")]
    OutOfRange,
    /// The text is not a plain decimal number.
    #[error("a fencing token must consist of digits only, without sign, space or leading zero")]
    Malformed,
}

impl Token {
    /// The smallest token, 1.
    pub const MIN: Token = Token(NonZeroU64::MIN);
    /// The largest token, 999,999,999,999,999.
    pub const MAX: Token = match NonZeroU64::new(999_999_999_999_999) {
        Some(max) => Token(max),
        None => Token::MIN,
    };

    /// Makes the token with this number.
    ///
    /// # Errors
    /// [`TokenError::OutOfRange`] for zero and for more than fifteen digits.
    pub const fn new(number: u64) -> Result<Token, TokenError> {
        match NonZeroU64::new(number) {
            Some(number) if number.get() <= Token::MAX.0.get() => Ok(Token(number)),
            _ => Err(TokenError::OutOfRange),
        }
    }

    /// Returns the token as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || (text.starts_with('0') && text != "0") {
            return Err(TokenError::Malformed);
        }
        text.parse().map_or(Err(TokenError::OutOfRange), Token::new)
    }
}

impl TryFrom<&str> for Token {
    type Error = TokenError;

    fn try_from(text: &str) -> Result<Token, TokenError> {
        text.parse()
    }
}

impl TryFrom<u64> for Token {
    type Error = TokenError;

    fn try_from(number: u64) -> Result<Token, TokenError> {
        Token::new(number)
    }
}

impl TryFrom<i64> for Token {
    type Error = TokenError;

    fn try_from(number: i64) -> Result<Token, TokenError> {
        u64::try_from(number).map_or(Err(TokenError::OutOfRange), Token::new)
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> u64 {
        token.get()
    }
}

impl From<Token> for i64 {
    /// Converts exactly: a token has fifteen digits at most.
    fn from(token: Token) -> i64 {
        token.get().cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        assert_eq!(Token::new(0), Err(TokenError::OutOfRange));
        assert_eq!(Token::new(1), Ok(Token::MIN));
        assert_eq!(Token::new(999_999_999_999_999), Ok(Token::MAX));
        assert_eq!(Token::new(1_000_000_000_000_000), Err(TokenError::OutOfRange));
        assert_eq!(Token::try_from(-1_i64), Err(TokenError::OutOfRange));
        assert_eq!(i64::from(Token::MAX), 999_999_999_999_999);
    }

    #[test]
    fn only_plain_digits_parse() {
        for bad in ["", " 1", "1 ", "+1", "-1", "01", "00", "1.0", "1e3", "0x1", "١", "1\n"] {
            assert_eq!(bad.parse::<Token>(), Err(TokenError::Malformed), "{bad:?}");
        }
        for bad in ["0", "1000000000000000", "99999999999999999999999999"] {
            assert_eq!(bad.parse::<Token>(), Err(TokenError::OutOfRange), "{bad:?}");
        }
        assert_eq!("34".parse::<Token>().map(Token::get), Ok(34));
    }

    #[test]
    fn order_is_that_of_the_numbers() {
        let [a, b] = ["9", "10"].map(|text| text.parse::<Token>().unwrap());
        assert!(a < b);
        assert_eq!(b.to_string(), "10");
    }

    #[test]
    fn json_is_a_number() {
        let token = Token::new(34).unwrap();
        assert_eq!(serde_json::to_string(&token).unwrap(), "34");
        assert_eq!(serde_json::from_str::<Token>("34").unwrap(), token);
        for bad in ["0", "-1", "\"34\"", "34.5", "1000000000000000"] {
            assert!(serde_json::from_str::<Token>(bad).is_err(), "{bad}");
        }
    }
}
