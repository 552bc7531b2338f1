use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult, UpdateVersion};

use super::ObjectError;
use super::head::FOLDER;
use crate::random;

/// Tests that a store keeps to conditions, on an object of its own: creates it twice, updates it, and updates it
/// once more on condition of the old version.
pub(super) async fn probe(store: &dyn ObjectStore) -> Result<(), ObjectError> {
    let path = Path::from(FOLDER).join(format!("probe-{:032x}", random::u128()));
    let probed = keeps_conditions(store, &path).await;
    // A role may lack this right, and needs it for `sweep` only.
    if let Err(error) = store.delete(&path).await {
        tracing::debug!(%path, %error, "the object that tested the store could not be deleted");
    }
    match probed? {
        None => Ok(()),
        Some(defect) => Err(ObjectError::Unconditional { store: store.to_string(), defect }),
    }
}

/// Returns what the store does wrong.
async fn keeps_conditions(store: &dyn ObjectStore, path: &Path) -> Result<Option<&'static str>, ObjectError> {
    let first = write(store, path, "first", PutMode::Create).await?;
    // A lost answer and a repetition look the same as an object that exists.
    let Some(first) = first else { return Ok(Some("it refused to create an object that does not exist")) };
    if write(store, path, "second", PutMode::Create).await?.is_some() {
        return Ok(Some("it ignores the condition that an object must not exist"));
    }
    if first.e_tag.is_none() && first.version.is_none() {
        return Ok(Some("it gives no version of what was written"));
    }
    let first = UpdateVersion { e_tag: first.e_tag, version: first.version };
    if write(store, path, "third", PutMode::Update(first.clone())).await?.is_none() {
        return Ok(Some("it refused an update of the version that it had given"));
    }
    if write(store, path, "fourth", PutMode::Update(first)).await?.is_some() {
        return Ok(Some("it ignores the condition that an object must have a version"));
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
