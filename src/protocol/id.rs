use std::fmt;
use std::sync::Arc;

use super::Fleet;

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl $name {
            /// Reads what `Display` writes: 32 hexadecimal digits.
            #[must_use]
            pub fn parse(text: &str) -> Option<$name> {
                let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                digits.then(|| u128::from_str_radix(text, 16).ok().map($name)).flatten()
            }
        }
    };
}

random_id! {
    /// Who holds a lock: 128 random bits, new for every attempt.
    Owner
}

random_id! {
    /// Marks one stretch of a node's memory: 128 random bits, gone when it forgets.
    Nonce
}

/// One life of one server: Redis calls it `run_id`. A restart shows another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(Arc<str>);

impl Incarnation {
    /// The incarnation that the server names so.
    #[must_use]
    pub fn new(name: &str) -> Incarnation {
        Incarnation(name.into())
    }

    /// The server's name for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One life of a server as a member of one fleet: what a session speaks to and for, and what a
/// node that was admitted remembers of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// The life of the server.
    pub incarnation: Incarnation,
    /// The fleet of the client.
    pub fleet: Fleet,
}
