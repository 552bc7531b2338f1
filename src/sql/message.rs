//! What the functions, procedures and triggers of this crate say when they refuse. Their
//! SQLSTATEs end like the HTTP statuses of the layer.

use crate::fence::Stale;
use crate::{Resource, Token};

/// The token is stale.
pub(super) const STALE: &str = "ZF412";
/// No token was presented for a protected table.
pub(super) const UNPRESENTED: &str = "ZF428";
/// The mark is no token.
pub(super) const CORRUPT: &str = "ZF500";

/// How the message begins where no token was presented.
#[allow(dead_code, reason = "the others have a SQLSTATE")]
pub(super) const NO_TOKEN: &str = "fencing: no token presented";

/// Reads `fencing: token 33 is stale, high water 34, resource files/a`, with whatever
/// stands before it. The name goes on to the end: it may contain anything.
pub(super) fn parse(text: &str) -> Option<Stale> {
    let (_, text) = text.split_once("fencing: token ")?;
    let (presented, text) = text.split_once(" is stale, high water ")?;
    let (highest, name) = text.split_once(", resource ")?;
    Some(Stale {
        resource: Resource::new(name.trim_end()).ok()?,
        presented: presented.parse::<Token>().ok()?,
        highest: highest.parse::<Token>().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_and_nothing_else() {
        let text = "x: fencing: token 33 is stale, high water 34, resource a, resource b";
        let stale = parse(text).unwrap();
        assert_eq!((stale.presented.get(), stale.highest.get()), (33, 34));
        assert_eq!(stale.resource.as_str(), "a, resource b");
        for text in [
            "",
            "fencing: token 0 is stale, high water 34, resource a",
            "fencing: token 33 is stale, high water 034, resource a",
            "fencing: token 33 is stale, high water 34, resource ",
            "token 33 is stale, high water 34, resource a",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
