use fencing_protocol::{Resource, Token};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};

use super::ObjectError;
use super::head::FOLDER;
use crate::fence::Stale;
use crate::random;

/// How often a write is sent, at most, before it gives up against others that write without a pause.
const TRIES: u32 = 100;

/// A write of one object, without the requests: what to do next, given what was read. Each request is conditional on
/// the version that was read last. So it is applied if nobody has written since, and once at most: a version never
/// comes back, as each has a nonce of its own.
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

/// How often a store is tested that seems to refuse what it should do: a lost answer that the client repeats looks so.
const PROBES: usize = 3;

/// What a store does wrong.
#[derive(Clone, Copy)]
enum StoreDefect {
    /// It refuses a write whose condition holds.
    Refuses(&'static str),
    /// It says that it has done what it should have refused, or does not say what it has written.
    Lies(&'static str),
}

/// Tests that a store keeps to conditions, on an object of its own: creates it twice, updates it, and updates it
/// once more on condition of the old version.
pub(super) async fn probe(store: &dyn ObjectStore) -> Result<(), ObjectError> {
    let mut tries = 1;
    loop {
        let path = Path::from(FOLDER).join(format!("probe-{:032x}", random::u128()));
        let found = find_defect(store, &path).await;
        // A role may lack this right, and needs it for `sweep` only.
        if let Err(error) = store.delete(&path).await {
            tracing::debug!(%path, %error, "the object that tested the store could not be deleted");
        }
        match found? {
            None => return Ok(()),
            Some(StoreDefect::Refuses(_)) if tries < PROBES => tries += 1,
            Some(StoreDefect::Refuses(defect) | StoreDefect::Lies(defect)) => {
                return Err(ObjectError::Unconditional { store: store.to_string(), defect });
            }
        }
    }
}

async fn find_defect(store: &dyn ObjectStore, path: &Path) -> Result<Option<StoreDefect>, ObjectError> {
    let put = |contents: &'static str, condition| put_if(store, path, contents.into(), condition);
    let Some(first) = put("first", PutMode::Create).await? else {
        return Ok(Some(StoreDefect::Refuses("it refused to create an object that does not exist")));
    };
    if put("second", PutMode::Create).await?.is_some() {
        return Ok(Some(StoreDefect::Lies("it ignores the condition that an object must not exist")));
    }
    if first.e_tag.is_none() && first.version.is_none() {
        return Ok(Some(StoreDefect::Lies("it gives no version of what was written")));
    }
    if put("third", PutMode::Update(first.clone())).await?.is_none() {
        return Ok(Some(StoreDefect::Refuses("it refused an update of the version that it had given")));
    }
    if put("fourth", PutMode::Update(first)).await?.is_some() {
        return Ok(Some(StoreDefect::Lies("it ignores the condition that an object must have a version")));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_up_after_so_many_tries() {
        let token = Token::try_from(34_u64).expect("it is one");
        let mut write = Write::new(Resource::new("files/a").expect("it is one"), token, 7, false);
        let state = |nonce| ObjectState { version: (), token, nonce };
        for nonce in 8..8 + u128::from(TRIES) {
            assert_eq!(write.judge(Some(&state(nonce))), Ok(Next::Send));
        }
        assert_eq!(write.judge(Some(&state(8))), Err(Halt::Contended));
    }
}
