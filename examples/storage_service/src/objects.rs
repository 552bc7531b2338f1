use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use fencing::fence::FenceError;
use fencing::object::{ObjectError, ObjectFence};
use fencing::{Resource, Token};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::error::ApiError;

/// Files in an object store, fenced by what is in the objects themselves.
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// None without the fence.
    fence: Option<ObjectFence>,
}

impl Objects {
    /// Opens a store, such as `s3://bucket/folder`, with what the environment has for it: `AWS_...`, `AZURE_...`.
    pub async fn open(url: &str, guarded: bool) -> Result<Objects, Box<dyn std::error::Error>> {
        let url = Url::parse(url).map_err(|error| format!("--files: {error}"))?;
        let opened = object_store::parse_url_opts(&url, std::env::vars());
        let (store, folder) = opened.map_err(|error| format!("--files: {error}"))?;
        let store: Arc<dyn ObjectStore> = Arc::new(PrefixStore::new(store, folder));
        let fence = match guarded {
            true => Some(ObjectFence::open(Arc::clone(&store)).await.map_err(|error| format!("--files: {error}"))?),
            false => None,
        };
        Ok(Objects { store, fence })
    }

    /// Writes. Under a token the object refuses what is older; without one nothing does.
    pub async fn write(&self, file: &Resource, token: Option<Token>, body: Bytes) -> Result<(), ApiError> {
        let path = Path::from(file.as_str());
        match (&self.fence, token) {
            (Some(fence), Some(token)) => Ok(fence.put(&path, token, body.into()).await?),
            _ => Ok(self.store.put(&path, body.into()).await.map(drop).map_err(ObjectError::from)?),
        }
    }

    pub async fn read(&self, file: &Resource) -> Result<Bytes, ApiError> {
        let path = Path::from(file.as_str());
        if let Some(fence) = &self.fence {
            match fence.get(&path).await {
                // Written without a token, for the page.
                Err(ObjectError::NotFenced { .. }) => {}
                read => return Ok(read?),
            }
        }
        let found = self.store.get(&path).await.map_err(ObjectError::from)?;
        Ok(found.bytes().await.map_err(ObjectError::from)?)
    }
}

impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> ApiError {
        match error {
            ObjectError::Stale(stale) => ApiError::Refused(Box::new(FenceError::from(stale).into())),
            ObjectError::NotFound { .. } | ObjectError::Store(object_store::Error::NotFound { .. }) => {
                ApiError::not_found("there is no such file")
            }
            ObjectError::Path { .. } => ApiError::bad(error),
            // No repetition helps.
            ObjectError::NotFenced { .. } => ApiError::new(StatusCode::CONFLICT, error),
            // A repetition under the same token is safe, also in doubt.
            error => ApiError::unavailable(error),
        }
    }
}
