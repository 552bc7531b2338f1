use std::sync::Arc;

use super::Fleet;

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(derive_more::Debug, derive_more::Display, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[display("{_0:032x}")]
        #[debug("{}({self})", stringify!($name))]
        pub struct $name(pub u128);

        impl $name {
            /// Reads what `Display` writes: 32 hexadecimal digits.
            pub fn parse(text: &str) -> Option<$name> {
                let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                digits.then(|| u128::from_str_radix(text, 16).ok().map($name)).flatten()
            }
        }
    };
}

random_id! {
    /// The holder of a lock: 128 bits, which must differ between attempts.
    Owner
}

random_id! {
    /// The mark of one stretch of a node's memory: 128 random bits, lost when the node forgets.
    Nonce
}

random_id! {
    /// The address of a client for notifications of releases: 128 random bits. No rule depends on it.
    ClientId
}

/// One run of one server. Redis calls it `run_id`; after a restart it is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(Arc<str>);

impl Incarnation {
    /// Makes the incarnation that the server gives this name.
    pub fn new(name: &str) -> Incarnation {
        Incarnation(name.into())
    }

    /// Returns the server's name for it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One run of a server in one fleet: of a session, and of a node's admission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// The run of the server.
    pub incarnation: Incarnation,
    /// The fleet of the client.
    pub fleet: Fleet,
}
