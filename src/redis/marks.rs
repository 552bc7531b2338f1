use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::redis::{Client, ConnectionAddr, IntoConnectionInfo};
use fencing_protocol::{Resource, Token};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::connection::{MarksConnection, floor, mark, unknown};
use super::{FencedError, SettingsError};
use crate::fence::{Marks, MarksFuture};
use crate::server_info::is_namespace;

/// The prefix of a mark's field, before the name of the resource.
const FIELD: &str = "m:";
const MAX_BUDGET: Duration = Duration::from_secs(60);
/// The most fields that can be written at once: a script has room for no more than some thousand arguments.
const MAX_FIELDS: usize = 1000;
/// The ends of the keys that this crate keeps for itself, in any namespace.
const OWN_KEYS: [&[u8]; 2] = [b"}:marks", b"}:memory"];

/// High-water marks in a Redis, and writes to it that are fenced by them.
///
/// The data may be in the same Redis: then [`fenced_set`](RedisMarks::fenced_set) and its siblings check and write
/// in one step. If the writes go elsewhere, it is a [`Marks`] for a [fence](crate::fence), as `SqlMarks` is. Clones
/// share one connection, which is opened when it is needed, and opened again after it broke.
///
/// **Fencing.** See [the module](super) for lost marks. Everything is refused until an operator has
/// [opened](RedisMarks::open) the marks, once after each start of the server. It does not guard against writers that
/// do not call it. As a [`Marks`] it fences no write that goes elsewhere: only the gate of the fence makes a newer
/// token wait for that write, within one process.
///
/// # Rights
/// An ACL user needs `eval`, `evalsha`, `info`, `hmget`, `hset`, `hlen`, `hscan`, `type` and the commands
/// that write (`set`, `del`, `hset`), on the key `{namespace}:marks` and the keys of the data.
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct RedisMarks {
    // It may have a password.
    #[debug(skip)]
    client: Client,
    /// The hash of the marks.
    pub(super) key: String,
    budget: Duration,
    #[debug(skip)]
    connection: Arc<Mutex<Option<Arc<MarksConnection>>>>,
}

/// A command that the script runs after its check.
struct FencedCommand<'a> {
    name: &'static str,
    /// The type that the key must have if it exists; empty if any will do.
    kind: &'static str,
    key: &'a [u8],
    /// The arguments after the key.
    arguments: Vec<&'a [u8]>,
}

impl RedisMarks {
    /// Keeps marks in the Redis at this URL: `redis://`, `rediss://` or `unix://`, with ACL user, password and database
    /// number if needed, in the hash `{namespace}:marks`, apart from other namespaces. It does not connect yet.
    ///
    /// # Errors
    /// [`SettingsError`] if the URL cannot be read, or the namespace cannot be part of a key.
    pub fn new(url: &str, namespace: &str) -> Result<RedisMarks, SettingsError> {
        if !is_namespace(namespace) {
            return Err(SettingsError::Namespace);
        }
        let info = url.into_connection_info().map_err(|_| SettingsError::Url)?;
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            // A provider that the program has installed stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = Client::open(info).map_err(|_| SettingsError::Url)?;
        let key = format!("{{{namespace}}}:marks");
        let budget = Duration::from_secs(2);
        Ok(RedisMarks { client, key, budget, connection: Arc::default() })
    }

    /// Limits how long one call may take, its connection included. Default: 2 s; at most 60 s.
    pub fn budget(self, budget: Duration) -> RedisMarks {
        RedisMarks { budget: budget.min(MAX_BUDGET), ..self }
    }

    /// Does `work` on a connection, within the budget. A connection that failed is not used again.
    pub(super) async fn on<T>(
        &self,
        work: impl AsyncFnOnce(&MarksConnection) -> Result<T, FencedError>,
    ) -> Result<T, FencedError> {
        let late = || format!("no answer within {} ms", self.budget.as_millis());
        let end = Instant::now() + self.budget;
        let connection = timeout_at(end, self.connection()).await;
        let connection = connection.map_err(|_| FencedError::Unreachable(late()))??;
        let outcome = timeout_at(end, work(&connection)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(FencedError::InDoubt(late())));
        if let Err(FencedError::InDoubt(_) | FencedError::Unfit(_)) = &outcome {
            connection.broken.store(true, Ordering::Relaxed);
        }
        outcome
    }

    async fn connection(&self) -> Result<Arc<MarksConnection>, FencedError> {
        let mut kept = self.connection.lock().await;
        if let Some(connection) = kept.as_ref().filter(|kept| !kept.broken.load(Ordering::Relaxed)) {
            return Ok(Arc::clone(connection));
        }
        let connection = Arc::new(MarksConnection::open(&self.client).await?);
        Ok(Arc::clone(kept.insert(connection)))
    }

    /// Sets a key, if `token` is not stale: compares it with the mark of `resource`, raises the mark, and writes,
    /// in one script. It replaces a value of any type, and removes an expiry.
    ///
    /// **Seal before you read**: if the value depends on one that you read, call
    /// [`Marks::raise`](crate::fence::Marks::raise) with the token first: an older holder may write in between.
    ///
    /// In a Redis Cluster, the key must have the namespace as its hash tag: `{files}:a`.
    ///
    /// **Fencing.** Once a newer token was admitted to this resource, this writes nothing. Check and write are atomic,
    /// whatever other clients do and however long they are paused. Every write of a key must name one resource.
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
        self.write(resource, token, FencedCommand { name: "SET", kind: "", key, arguments }).await.map(drop)
    }

    /// Deletes a key, as [`fenced_set`](Self::fenced_set) sets one. Returns whether it was there. The mark stays.
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
        self.write(resource, token, FencedCommand { name: "HSET", kind: "hash", key: key.as_ref(), arguments }).await
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
    async fn admit(
        &self,
        resource: &Resource,
        token: Token,
        command: Option<FencedCommand<'_>>,
    ) -> Result<u64, FencedError> {
        let answer = self.on(async |connection| {
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

    async fn read(&self, resource: &Resource) -> Result<Option<Token>, FencedError> {
        let field = format!("{FIELD}{resource}");
        let answer = self.on(async |connection| connection.run(include_str!("read.lua"), &self.key, &[&field]).await);
        let answer = answer.await?;
        if answer.word == "floor" { floor(&answer.text(0)) } else { mark(resource, &answer.text(0)) }
    }

    async fn first(&self, after: Option<&Resource>, limit: usize) -> Result<Vec<(Resource, Token)>, FencedError> {
        let mut first = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = ::redis::cmd("HSCAN");
            command.arg(&self.key).arg(&cursor).arg("MATCH").arg(format!("{FIELD}*"));
            command.arg("COUNT").arg(1000);
            let answer = self.on(async |connection| connection.send(&command).await).await?;
            let Ok((next, fields)) = ::redis::from_redis_value_ref::<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>)>(&answer)
            else {
                return Err(unknown(&answer));
            };
            for (field, value) in fields {
                // Invalid marks are omitted.
                let Some((resource, token)) = valid(&field, &value) else { continue };
                if Some(&resource) > after {
                    first.insert(resource, token);
                }
                if first.len() > limit {
                    first.pop_last();
                }
            }
            if next == b"0" {
                return Ok(first.into_iter().collect());
            }
            cursor = next;
        }
    }
}

fn valid(field: &[u8], value: &[u8]) -> Option<(Resource, Token)> {
    let name = std::str::from_utf8(field).ok()?.strip_prefix(FIELD)?;
    Some((Resource::new(name).ok()?, std::str::from_utf8(value).ok()?.parse().ok()?))
}

impl Marks for RedisMarks {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> MarksFuture<'a, ()> {
        Box::pin(async move { Ok(self.admit(resource, token, None).await.map(drop)?) })
    }

    /// Returns the floor where the resource has no mark.
    fn highest<'a>(&'a self, resource: &'a Resource) -> MarksFuture<'a, Option<Token>> {
        Box::pin(async move { Ok(self.read(resource).await?) })
    }

    /// It reads all marks, even if they are closed.
    fn list<'a>(&'a self, after: Option<&'a Resource>, limit: usize) -> MarksFuture<'a, Vec<(Resource, Token)>> {
        Box::pin(async move { Ok(self.first(after, limit).await?) })
    }
}
