use fencing_protocol::{Resource, Token};

use super::admit::Write;
use super::{FencedError, RedisMarks};

/// How many fields can be written at once: a script has room for no more than some thousand arguments.
const FIELDS: usize = 1000;

impl RedisMarks {
    /// Sets a key, if `token` is not stale: compares it with the mark of `resource`, raises the mark, and writes,
    /// in one script. What was there is replaced, whatever its type; an expiry ends.
    ///
    /// **Seal before you read**: if the new value depends on one that you read, call
    /// [`Marks::raise`](crate::fence::Marks::raise) with the token before you read. Otherwise an older holder may write
    /// between your read and this write.
    ///
    /// In a Redis Cluster, the key must have the namespace as its hash tag: `{files}:a`.
    ///
    /// **Fencing.** Once a newer token was admitted to this resource, this writes nothing. Nothing comes between check
    /// and write, on whichever clients and however long they sleep. Which keys belong to which resource is for the
    /// callers to agree on.
    ///
    /// # Errors
    /// [`FencedError::Stale`] if the mark is higher. After [`FencedError::InDoubt`] the write may be stored, or may be
    /// yet: send the same write again and no other. After all others nothing was written.
    ///
    /// # Cancel safety
    /// If you drop the future, it is as after [`FencedError::InDoubt`].
    pub async fn fenced_set(
        &self,
        resource: &Resource,
        token: Token,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), FencedError> {
        let (key, arguments) = (key.as_ref(), vec![value.as_ref()]);
        let write = Write { command: "SET", kind: "", key, arguments };
        self.admit(resource, token, write).await.map(drop)
    }

    /// Deletes a key, if `token` is not stale, as [`fenced_set`](RedisMarks::fenced_set) writes one. Returns whether it
    /// was there. The mark stays.
    ///
    /// # Errors
    /// As [`fenced_set`](RedisMarks::fenced_set).
    ///
    /// # Cancel safety
    /// As [`fenced_set`](RedisMarks::fenced_set).
    pub async fn fenced_del(
        &self,
        resource: &Resource,
        token: Token,
        key: impl AsRef<[u8]>,
    ) -> Result<bool, FencedError> {
        let write = Write { command: "DEL", kind: "", key: key.as_ref(), arguments: Vec::new() };
        Ok(self.admit(resource, token, write).await? > 0)
    }

    /// Sets up to 1000 fields of a hash, if `token` is not stale, as [`fenced_set`](RedisMarks::fenced_set) writes a key.
    /// Returns how many of the fields are new.
    ///
    /// # Errors
    /// As [`fenced_set`](RedisMarks::fenced_set); [`FencedError::WrongType`] if the key holds no hash: then the mark is
    /// not raised, as nothing was written. Raise it first if the key may have another type.
    /// [`FencedError::WrongCount`] if there are no fields, or too many.
    ///
    /// # Cancel safety
    /// As [`fenced_set`](RedisMarks::fenced_set).
    pub async fn fenced_hset<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        resource: &Resource,
        token: Token,
        key: impl AsRef<[u8]>,
        fields: &[(F, V)],
    ) -> Result<u64, FencedError> {
        if fields.is_empty() || fields.len() > FIELDS {
            return Err(FencedError::WrongCount { count: fields.len(), most: FIELDS });
        }
        let arguments =
            fields.iter().flat_map(|(field, value)| [field.as_ref(), value.as_ref()]).collect();
        let write = Write { command: "HSET", kind: "hash", key: key.as_ref(), arguments };
        self.admit(resource, token, write).await
    }
}
