use std::iter::once;

use fencing_protocol::Token;
use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::{Path, PathPart};

use super::head::{self, FOLDER, Location};
use super::object_fence::HEAD;
use super::{ObjectError, ObjectFence};

impl ObjectFence {
    /// Deletes contents of streams at which no object points any more, below a prefix, and returns how many. Call it
    /// now and then; it takes a list of `.fencing`, and a read for each object that has contents there.
    ///
    /// It is safe at any time, beside any writer. It deletes contents whose token is *lower* than that of the object's
    /// head, unless the head points at them. No write under such a token can be applied any more, so no head will ever
    /// point at them. Leftovers of a failed write under the newest token stay until a later token has written.
    ///
    /// # Errors
    /// [`ObjectError::Store`] if the store fails. What was deleted stays deleted; call it again.
    pub async fn sweep(&self, prefix: Option<&Path>) -> Result<u64, ObjectError> {
        let below: Path = once(PathPart::from(FOLDER)).chain(prefix.into_iter().flat_map(Path::parts)).collect();
        let mut bodies = self.store.list(Some(&below));
        // Of the object whose contents came last: they mostly come one behind the other.
        let mut head: Option<(Path, Option<(Token, Location)>)> = None;
        let mut deleted = 0;
        while let Some(body) = bodies.try_next().await? {
            let Some((path, token)) = head::owner(&body.location) else { continue };
            if head.as_ref().is_none_or(|(last, _)| *last != path) {
                let read = match self.read(&path, HEAD).await {
                    Ok(read) => read.map(|(state, object)| (state.token, object.location)),
                    // Written without the fence: nothing is known of its token.
                    Err(ObjectError::NotFenced { .. }) => None,
                    Err(error) => return Err(error),
                };
                head = Some((path, read));
            }
            if let Some((_, Some((newest, location)))) = &head
                && token < *newest
                // The file name has its own nonce and is enough; the folder may differ, as a store may list another
                // path than it was given: Azure makes `a/b` of `a\b`.
                && !matches!(location, Location::At(path) if path.filename() == body.location.filename())
            {
                self.store.delete(&body.location).await?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }
}
