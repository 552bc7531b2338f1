use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult, UpdateVersion};

use super::ObjectError;
use super::head::FOLDER;
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
    let mut found = None;
    for _ in 0..TRIES {
        let path = Path::from(FOLDER).join(format!("probe-{:032x}", random::u128()));
        let probed = find_defect(store, &path).await;
        // A role may lack this right, and needs it for `sweep` only.
        if let Err(error) = store.delete(&path).await {
            tracing::debug!(%path, %error, "the object that tested the store could not be deleted");
        }
        found = probed?;
        if !matches!(found, Some(StoreDefect::Refuses(_))) {
            break;
        }
    }
    match found {
        None => Ok(()),
        Some(StoreDefect::Refuses(defect) | StoreDefect::Lies(defect)) => {
            Err(ObjectError::Unconditional { store: store.to_string(), defect })
        }
    }
}

async fn find_defect(store: &dyn ObjectStore, path: &Path) -> Result<Option<StoreDefect>, ObjectError> {
    let first = write(store, path, "first", PutMode::Create).await?;
    let Some(first) = first else {
        return Ok(Some(StoreDefect::Refuses("it refused to create an object that does not exist")));
    };
    if write(store, path, "second", PutMode::Create).await?.is_some() {
        return Ok(Some(StoreDefect::Lies("it ignores the condition that an object must not exist")));
    }
    if first.e_tag.is_none() && first.version.is_none() {
        return Ok(Some(StoreDefect::Lies("it gives no version of what was written")));
    }
    let first = UpdateVersion { e_tag: first.e_tag, version: first.version };
    if write(store, path, "third", PutMode::Update(first.clone())).await?.is_none() {
        return Ok(Some(StoreDefect::Refuses("it refused an update of the version that it had given")));
    }
    if write(store, path, "fourth", PutMode::Update(first)).await?.is_some() {
        return Ok(Some(StoreDefect::Lies("it ignores the condition that an object must have a version")));
    }
    Ok(None)
}

/// Sends a conditional write. Returns none if it was refused.
async fn write(
    store: &dyn ObjectStore,
    path: &Path,
    contents: &'static str,
    mode: PutMode,
) -> Result<Option<PutResult>, Error> {
    match store.put_opts(path, PutPayload::from_static(contents.as_bytes()), mode.into()).await {
        Ok(written) => Ok(Some(written)),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
