use std::sync::Arc;

use fencing_protocol::{Resource, Token};

use super::connection::MarksConnection;
use super::marks::FIELD;
use super::{FencedError, RedisMarks};

/// The most fields that can be written at once: a script has room for no more than some thousand arguments.
const MAX_FIELDS: usize = 1000;
/// The ends of the keys that this crate keeps for itself, in any namespace.
const OWN_KEYS: [&[u8]; 2] = [b"}:marks", b"}:memory"];

/// A command that the script runs after its check.
pub(super) struct FencedCommand<'a> {
    name: &'static str,
    /// The type that the key must have if it exists; empty if any will do.
    kind: &'static str,
    key: &'a [u8],
    /// The arguments after the key.
    arguments: Vec<&'a [u8]>,
}

impl RedisMarks {
    /// Sets a key, if `token` is not stale: compares it with the mark of `resource`, raises the mark, and writes,
    /// in one script. It replaces a value of any type, and removes an expiry.
    ///
    /// **Seal before you read**: if the new value depends on one that you read, call
    /// [`Marks::raise`](crate::fence::Marks::raise) with the token before you read. Otherwise an older holder may write
    /// between your read and this write.
    ///
    /// In a Redis Cluster, the key must have the namespace as its hash tag: `{files}:a`.
    ///
    /// **Fencing.** Once a newer token was admitted to this resource, this writes nothing. Check and write are atomic,
    /// whatever other clients do and however long they are paused. Callers must agree which keys belong to which
    /// resource.
    ///
    /// # Errors
    /// [`FencedError::Stale`] if the mark is higher. After [`FencedError::InDoubt`] the write may be stored now or
    /// later: send only the same write again. After all other errors nothing was written.
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
        let command = FencedCommand { name: "SET", kind: "", key, arguments };
        self.write(resource, token, command).await.map(drop)
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
        let command = FencedCommand { name: "DEL", kind: "", key: key.as_ref(), arguments: Vec::new() };
        Ok(self.write(resource, token, command).await? > 0)
    }

    /// Sets up to 1000 fields of a hash, if `token` is not stale, as [`fenced_set`](RedisMarks::fenced_set) writes a
    /// key. Returns how many of the fields are new.
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
        if fields.is_empty() || fields.len() > MAX_FIELDS {
            return Err(FencedError::WrongCount { count: fields.len(), most: MAX_FIELDS });
        }
        let arguments = fields.iter().flat_map(|(field, value)| [field.as_ref(), value.as_ref()]).collect();
        let command = FencedCommand { name: "HSET", kind: "hash", key: key.as_ref(), arguments };
        self.write(resource, token, command).await
    }

    /// Checks the token, raises the mark and writes. Returns what the command returned.
    async fn write(&self, resource: &Resource, token: Token, command: FencedCommand<'_>) -> Result<u64, FencedError> {
        let outcome = match OWN_KEYS.iter().any(|end| command.key.ends_with(end)) {
            true => Err(FencedError::OwnKey),
            false => self.admit(resource, token, Some(command)).await,
        };
        if let Err(error) = &outcome {
            tracing::info!(%error, "write not admitted");
        }
        let label = outcome.as_ref().map_or_else(FencedError::label, |_| "admitted");
        metrics::counter!("fencing_admissions_total", "layer" => "redis", "outcome" => label).increment(1);
        outcome
    }

    /// Checks the token, raises the mark and runs the command, in one script.
    pub(super) async fn admit(
        &self,
        resource: &Resource,
        token: Token,
        command: Option<FencedCommand<'_>>,
    ) -> Result<u64, FencedError> {
        let answer = self.on(async |connection: Arc<MarksConnection>| {
            let arguments = |script: &mut ::redis::Cmd| {
                let key = command.as_ref().map(|command| command.key);
                script.arg(1 + usize::from(key.is_some())).arg(&self.key).arg(key);
                script.arg(&connection.life).arg(format!("{FIELD}{resource}")).arg(token.get());
                match &command {
                    Some(command) => script.arg(command.kind).arg(command.name).arg(&command.arguments),
                    None => script.arg("").arg(""),
                };
            };
            connection.admit(arguments).await
        });
        answer.await?.passed(resource, token)
    }
}
