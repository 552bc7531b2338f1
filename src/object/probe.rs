use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use super::ObjectError;
use super::head::FOLDER;
use super::write::put_if;
use crate::random;

/// How often a store is tested that seems to refuse what it should do: a lost answer that the client repeats looks so.
const TRIES: usize = 3;

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
            Some(StoreDefect::Refuses(_)) if tries < TRIES => tries += 1,
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
