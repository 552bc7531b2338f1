//! A token together with the resource that it belongs to.

use std::str::FromStr;

use fencing_protocol::{Resource, ResourceError, Token, TokenError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fencing token and the resource that it was issued for: what a holder shows to others.
///
/// A bare token says nothing about its resource: token 34 of `docs/a`, presented for `docs/b` where the
/// high-water mark is 5, would shut out the rightful holder of `docs/b`. The pair cannot be presented
/// for another resource by mistake. It is not signed: a client that may write can forge one.
///
/// Its text form is the token, one space, and the name: `34 docs/a`. A name may contain spaces; a
/// token never does. [`Lease::sequencer`](crate::lock::Lease::sequencer) gives you the pair of a lease.
///
/// The name and the idea are those of Chubby (Mike Burrows, "The Chubby lock service for
/// loosely-coupled distributed systems", OSDI 2006).
///
/// ```
/// use fencing::Sequencer;
///
/// let sequencer: Sequencer = "34 docs/a".parse()?;
/// assert_eq!(sequencer.token.get(), 34);
/// assert_eq!(sequencer.resource.as_str(), "docs/a");
/// assert_eq!(sequencer.to_string(), "34 docs/a");
/// # Ok::<(), fencing::SequencerError>(())
/// ```
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{token} {resource}")]
pub struct Sequencer {
    /// The resource that the token belongs to.
    pub resource: Resource,
    /// The token.
    pub token: Token,
}

/// A source of a token that may still be presented: a [`Lease`](crate::lock::Lease) until it ends.
#[auto_impl::auto_impl(Arc)]
pub trait HeldToken: Send + Sync {
    /// Returns the token together with its resource, or `None` after the lease has ended. Then nothing
    /// more may be sent under it.
    fn held(&self) -> Option<Sequencer>;
}

/// The pair of another client's lease. Only that client knows when the lease ends.
impl HeldToken for Sequencer {
    fn held(&self) -> Option<Sequencer> {
        Some(self.clone())
    }
}

/// Why a text is not a valid [`Sequencer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SequencerError {
    /// There is no space between a token and a name.
    #[error("a sequencer is a token, one space and a resource, as in '34 docs/a'")]
    Malformed,
    /// The text before the first space is not a valid token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The text behind the first space is not a valid resource.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

impl Sequencer {
    /// Pairs a resource with a token that was issued for it.
    pub const fn new(resource: Resource, token: Token) -> Sequencer {
        Sequencer { resource, token }
    }
}

impl FromStr for Sequencer {
    type Err = SequencerError;

    fn from_str(text: &str) -> Result<Sequencer, SequencerError> {
        let (token, resource) = text.split_once(' ').ok_or(SequencerError::Malformed)?;
        Ok(Sequencer { token: token.parse()?, resource: resource.parse()? })
    }
}

impl Serialize for Sequencer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sequencer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sequencer, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_is_read_back() {
        for text in ["34 docs/a", "1 a b", "999999999999999 ä/ü"] {
            let sequencer: Sequencer = text.parse().unwrap();
            assert_eq!(sequencer.to_string(), text);
            let json = serde_json::to_string(&sequencer).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Sequencer>(&json).unwrap(), sequencer);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let error = |text: &str| text.parse::<Sequencer>().unwrap_err();
        assert_eq!(error(""), SequencerError::Malformed);
        assert_eq!(error("34"), SequencerError::Malformed);
        assert_eq!(error("34\tdocs/a"), SequencerError::Malformed);
        assert_eq!(error(" 34 docs/a"), SequencerError::Token(TokenError::Malformed));
        assert_eq!(error("docs/a 34"), SequencerError::Token(TokenError::Malformed));
        assert_eq!(error("0 docs/a"), SequencerError::Token(TokenError::OutOfRange));
        for text in ["34 ", "34  docs/a", "34 docs/a ", "34 docs/a\n"] {
            assert!(matches!(error(text), SequencerError::Resource(_)), "{text:?}");
        }
    }
}
