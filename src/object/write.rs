use fencing_protocol::{Resource, Token};
use object_store::path::Path;
use object_store::{Error, ObjectStore, PutMode, PutPayload, UpdateVersion};

use crate::fence::Stale;

/// How often a write is sent, at most, before it gives up against others that write without a pause.
const TRIES: u32 = 100;

/// A write of one object, without the requests: what to do next, given what was read.
///
/// Each request is conditional on the version that was read last. So it is applied if nobody has written since, and
/// once at most: a version never comes back, as each has a nonce of its own.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Write {
    pub resource: Resource,
    pub token: Token,
    pub nonce: u128,
    /// Whether it keeps the contents and does no more than to raise the mark.
    pub claims: bool,
    tries: u32,
}

/// The state of an object: its version in the store, and what its head says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ObjectState<V> {
    pub version: V,
    pub token: Token,
    pub nonce: u128,
}

/// What a write does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send it, on condition that the object is still as it was judged.
    Send,
    /// Nothing: the object is as this write wants it.
    Done,
}

/// Why a write ends without being applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Halt {
    Stale(Stale),
    /// Others wrote before each of its tries.
    Contended,
}

impl Write {
    pub fn new(resource: Resource, token: Token, nonce: u128, claims: bool) -> Write {
        Write { resource, token, nonce, claims, tries: 0 }
    }

    /// Judges the state of the object: `None` if there is no such object.
    pub fn judge<V>(&mut self, state: Option<&ObjectState<V>>) -> Result<Next, Halt> {
        if let Some(state) = state {
            // A client of a store repeats a request whose answer was lost, and the repetition is refused.
            if state.nonce == self.nonce {
                return Ok(Next::Done);
            }
            Stale::check(&self.resource, self.token, Some(state.token)).map_err(Halt::Stale)?;
            if self.claims && state.token == self.token {
                return Ok(Next::Done);
            }
        }
        if self.tries == TRIES {
            return Err(Halt::Contended);
        }
        self.tries += 1;
        Ok(Next::Send)
    }
}

/// Writes an object on a condition. Returns the new version, and none if the condition was not met.
pub(super) async fn put_if(
    store: &dyn ObjectStore,
    path: &Path,
    object: PutPayload,
    condition: PutMode,
) -> Result<Option<UpdateVersion>, Error> {
    match store.put_opts(path, object, condition.into()).await {
        Ok(written) => Ok(Some(UpdateVersion { e_tag: written.e_tag, version: written.version })),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(claims: bool) -> Write {
        let token = Token::try_from(34_u64).expect("it is one");
        Write::new(Resource::new("files/a").expect("it is one"), token, 7, claims)
    }

    fn state(token: u64, nonce: u128) -> ObjectState<()> {
        ObjectState { version: (), token: Token::try_from(token).expect("it is one"), nonce }
    }

    #[test]
    fn an_absent_object_and_a_token_that_is_not_newer_are_written_over() {
        assert_eq!(write(false).judge::<()>(None), Ok(Next::Send));
        assert_eq!(write(false).judge(Some(&state(33, 1))), Ok(Next::Send));
        assert_eq!(write(false).judge(Some(&state(34, 1))), Ok(Next::Send));
    }

    #[test]
    fn a_newer_token_refuses() {
        let Err(Halt::Stale(stale)) = write(false).judge(Some(&state(35, 1))) else { panic!("it was not refused") };
        assert_eq!((stale.presented.get(), stale.highest.get()), (34, 35));
    }

    #[test]
    fn its_own_nonce_is_success() {
        assert_eq!(write(false).judge(Some(&state(34, 7))), Ok(Next::Done));
    }

    #[test]
    fn a_claim_writes_only_over_an_older_token() {
        assert_eq!(write(true).judge::<()>(None), Ok(Next::Send));
        assert_eq!(write(true).judge(Some(&state(33, 1))), Ok(Next::Send));
        assert_eq!(write(true).judge(Some(&state(34, 1))), Ok(Next::Done));
    }

    #[test]
    fn it_gives_up_after_so_many_tries() {
        let mut write = write(false);
        for nonce in 8..8 + u128::from(TRIES) {
            assert_eq!(write.judge(Some(&state(34, nonce))), Ok(Next::Send));
        }
        assert_eq!(write.judge(Some(&state(34, 8))), Err(Halt::Contended));
    }
}
