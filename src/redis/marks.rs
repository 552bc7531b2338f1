use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::redis::{Client, ConnectionAddr, IntoConnectionInfo};
use fencing_protocol::{Resource, Token};
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::answer::{floor, mark, unknown};
use super::connection::MarksConnection;
use super::{FencedError, SettingsError};
use crate::fence::{FenceError, Marks};

/// The prefix of a mark's field, before the name of the resource.
pub(super) const FIELD: &str = "m:";
const MAX_BUDGET: Duration = Duration::from_secs(60);

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

impl RedisMarks {
    /// Keeps marks in the Redis at this URL: `redis://`, `rediss://` or `unix://`, with ACL user, password and
    /// database number if you need them. They are in the hash `{namespace}:marks`, apart from those of other
    /// namespaces. It does not connect yet.
    ///
    /// # Errors
    /// [`SettingsError`] if the URL cannot be read, or the namespace cannot be part of a key.
    pub fn new(url: &str, namespace: &str) -> Result<RedisMarks, SettingsError> {
        let fits = !namespace.is_empty()
            && namespace.len() <= 64
            && !namespace.contains(|found: char| found.is_control() || "{}".contains(found));
        if !fits {
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
    #[must_use]
    pub fn budget(self, budget: Duration) -> RedisMarks {
        RedisMarks { budget: budget.min(MAX_BUDGET), ..self }
    }

    /// Does `work` on a connection, within the budget. A connection that failed is not used again.
    pub(super) async fn on<T, F>(&self, work: impl FnOnce(Arc<MarksConnection>) -> F) -> Result<T, FencedError>
    where
        F: Future<Output = Result<T, FencedError>>,
    {
        let late = || format!("no answer within {} ms", self.budget.as_millis());
        let end = Instant::now() + self.budget;
        let connection = timeout_at(end, self.connection()).await;
        let connection = connection.map_err(|_| FencedError::Unreachable(late()))??;
        let outcome = timeout_at(end, work(Arc::clone(&connection))).await;
        let outcome = outcome.unwrap_or_else(|_| Err(FencedError::InDoubt(late())));
        if let Err(FencedError::InDoubt(_) | FencedError::Unfit(_)) = &outcome {
            connection.broken.store(true, Ordering::Relaxed);
        }
        outcome
    }

    async fn connection(&self) -> Result<Arc<MarksConnection>, FencedError> {
        let mut kept = self.connection.lock().await;
        if let Some(connection) = &*kept
            && !connection.broken.load(Ordering::Relaxed)
        {
            return Ok(Arc::clone(connection));
        }
        let connection = Arc::new(MarksConnection::open(&self.client).await?);
        Ok(Arc::clone(kept.insert(connection)))
    }

    async fn read(&self, resource: &Resource) -> Result<Option<Token>, FencedError> {
        let field = format!("{FIELD}{resource}");
        let answer = self.on(async |connection: Arc<MarksConnection>| {
            connection.run(include_str!("read.lua"), &self.key, &[&field]).await
        });
        let answer = answer.await?;
        match answer.word.as_str() {
            "floor" => floor(&answer.text(0)),
            _ => mark(resource, &answer.text(0)),
        }
    }

    async fn first(&self, after: Option<&Resource>, limit: usize) -> Result<Vec<(Resource, Token)>, FencedError> {
        let mut first = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = ::redis::cmd("HSCAN");
            command.arg(&self.key).arg(&cursor).arg("MATCH").arg(format!("{FIELD}*"));
            command.arg("COUNT").arg(1000);
            let answer = self.on(async |connection: Arc<MarksConnection>| connection.send(&command).await).await?;
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
    let token = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some((Resource::new(name).ok()?, token))
}

impl Marks for RedisMarks {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        Box::pin(async move { Ok(self.admit(resource, token, None).await.map(drop)?) })
    }

    /// Returns the floor where the resource has no mark.
    fn highest<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Option<Token>, FenceError>> {
        Box::pin(async move { Ok(self.read(resource).await?) })
    }

    /// It reads all marks, even if they are closed.
    fn list<'a>(
        &'a self,
        after: Option<&'a Resource>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Resource, Token)>, FenceError>> {
        Box::pin(async move { Ok(self.first(after, limit).await?) })
    }
}
