use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisResult, ServerErrorKind, Value,
};
use fencing_protocol::{ClientId, Fault, Fleet, Incarnation, Membership, Request};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use smallvec::smallvec;

use super::fault::{fault, invalid, unfit, unreachable};
use super::keys::RedisKeys;
use super::listener::RedisListener;
use super::reply::{self, Answered};
use super::scripts::Scripts;
use super::stream::{self, config, settings};
use super::url::{refused, without_password};
use super::wire::Wire;
use crate::lock::redlock::answers::NodeAnswer;
use crate::lock::redlock::node::{Group, GroupKind};
use crate::lock::redlock::{BuildError, Node, Session};
use crate::lock::wait::release_notifications::ReleaseListener;
use crate::random;
use crate::server_info::{ServerInfo, is_namespace};

/// One Redis master without failover, as Redlock asks.
#[derive(Debug, Clone)]
pub struct RedisNode {
    pub(super) name: String,
    member: String,
    pub(super) client: Client,
    pub(super) keys: RedisKeys,
}

impl RedisNode {
    /// Returns the node at this URL: `redis://`, `rediss://` or `unix://`, with ACL user,
    /// password and database number if you need them. It does not connect yet.
    ///
    /// Its name in the fleet is the URL without user and password, or what you write in front of it, as in
    /// `a=redis://10.0.0.5:6379`: a node with a name of its own may change its address. So may any other that keeps its
    /// name, as in `redis://10.0.0.5:6379=redis://10.0.0.9:6379`. Every client must give the nodes the same names.
    ///
    /// `rediss://` trusts the system's certificates, or those in the file that the variable `SSL_CERT_FILE` names.
    ///
    /// # Errors
    /// [`BuildError`] says which part of the URL is wrong, or that the namespace cannot be part of a key.
    pub fn new(url: &str, namespace: &str) -> Result<RedisNode, BuildError> {
        if !is_namespace(namespace) {
            return Err(BuildError::new("namespace", "1 to 64 bytes, no control characters, no braces"));
        }
        let whole = url;
        let (given, url) = match url.split_once('=') {
            // A name may be the URL that the node had before, which has neither a password nor parameters.
            Some((name, url)) if !name.contains("://") || (url.contains("://") && !name.contains(['?', '@'])) => {
                (Some(name.trim()), url.trim())
            }
            _ => (None, url),
        };
        let info = url.into_connection_info().map_err(|_| refused(whole, url))?;
        if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
            let rule = format!("{} trusts every certificate: name yours in SSL_CERT_FILE", without_password(whole));
            return Err(BuildError::new("redis", rule));
        }
        let info = info.set_tcp_settings(settings());
        let user = info.redis_settings().username().map_or_else(String::new, |user| format!("{user}@"));
        let scheme = match info.addr() {
            ConnectionAddr::Tcp(..) => "redis",
            ConnectionAddr::TcpTls { .. } => {
                // A provider that the program has installed stays.
                let _ = rustls::crypto::ring::default_provider().install_default();
                "rediss"
            }
            _ => "unix",
        };
        let number = info.redis_settings().db();
        let database = if number == 0 { String::new() } else { format!("/{number}") };
        let address = format!("{}{database}", info.addr());
        // Clients may be different users of one node.
        let (name, member) = match given {
            Some(name) => (name.to_owned(), name.to_owned()),
            None => (format!("{scheme}://{user}{address}"), format!("{scheme}://{address}")),
        };
        let client = Client::open(info).map_err(|_| refused(whole, url))?;
        Ok(RedisNode { name, member, client, keys: RedisKeys::new(namespace) })
    }

    /// Connects, logs in, reads the server's identity, loads the scripts, and makes the session.
    async fn begin(self, fleet: Fleet, holder: String) -> Result<Box<dyn Session>, Fault> {
        let stream = stream::connect(&self.client).await;
        let wire = Wire::new(stream.map_err(|error| unreachable(error.into()))?);
        let settings = self.client.get_connection_info().redis_settings();
        if let Some(password) = settings.password() {
            let login = wire.send(|it| it.arg("AUTH").arg(settings.username()).arg(password));
            let login = login.await.and_then(Value::extract_error);
            login.map_err(|error| match unreachable(error) {
                // A server that is full says so to the first command.
                Fault::Refused(text) if !text.contains("max number of clients") => Fault::Denied(text),
                other => other,
            })?;
        }
        if settings.db() != 0 {
            let select = wire.send(|it| it.arg("SELECT").arg(settings.db()));
            let select = select.await.and_then(Value::extract_error);
            select.map_err(unreachable)?;
        }
        let incarnation = Incarnation::new(&fit(&wire).await?.run_id);
        let me = Membership { incarnation: incarnation.clone(), fleet };
        let mut scripts = Scripts::new(self.keys, holder, &me);
        scripts.load(&wire).await.map_err(fault)?;
        // Not from zero: a proxy may share a connection among clients, whose numbers must differ. Lua keeps 53 bits.
        let number = AtomicU64::new(random::u128() as u64 >> 12);
        Ok(Box::new(Arc::new(RedisSession { wire, incarnation, scripts, number })))
    }
}

impl Node for RedisNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn member(&self) -> &str {
        &self.member
    }

    fn open(&self, fleet: &Fleet, holder: &str) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        self.clone().begin(fleet.clone(), holder.to_owned()).boxed()
    }

    fn listen(&self, client: ClientId) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
        RedisListener::open(self.client.clone(), self.keys.clone(), client).boxed()
    }
}

struct RedisSession {
    wire: Wire,
    incarnation: Incarnation,
    scripts: Scripts,
    /// The number of the next request.
    number: AtomicU64,
}

impl RedisSession {
    /// Sends requests about locks, or one about the node, which has been up for `uptime`, as one command. Returns the
    /// answer to each, or `None` if nothing was run, because the server has lost the scripts.
    async fn ask(&self, requests: &[Request], uptime: Duration) -> Option<Group<NodeAnswer>> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let answer = self.wire.send(|command| self.scripts.write(command, requests, number));
        let answer = answer.await.and_then(Value::extract_error);
        let lost = ErrorKind::Server(ServerErrorKind::NoScript);
        if answer.as_ref().is_err_and(|error| error.kind() == lost) {
            self.scripts.flushed();
            return None;
        }
        let answers = answer.map_err(fault).and_then(|value| {
            let anothers = || Fault::Disconnected("the reply belongs to another request".into());
            let answered = reply::answer_to(number, &value).ok_or_else(anothers)?;
            let answers = match (requests, answered) {
                ([request], Answered::List(parts)) if GroupKind::of(request).is_none() => {
                    reply::reply(uptime, parts).map(|reply| smallvec![Ok(reply)])
                }
                _ => reply::group(requests, answered),
            };
            answers.ok_or_else(|| invalid(&format!("{answered:?}")))
        });
        Some(answers.unwrap_or_else(|fault| smallvec![Err(fault); requests.len()]))
    }

    async fn answers(&self, requests: &[Request], uptime: Duration) -> Group<NodeAnswer> {
        if let Some(answers) = self.ask(requests, uptime).await {
            return answers;
        }
        // Nothing is ever sent twice but a release, which may come late and often.
        let is_release = |request: &&Request| request.is_release();
        let releases: Vec<Request> = requests.iter().filter(is_release).cloned().collect();
        let again = if releases.is_empty() { None } else { self.ask(&releases, uptime).await };
        let mut again = again.unwrap_or_default().into_iter();
        let lost = || Err(Fault::NotNow("the server has lost the scripts".into()));
        let answer = |it: &Request| if it.is_release() { again.next() } else { None };
        requests.iter().map(answer).map(|it| it.unwrap_or_else(lost)).collect()
    }
}

impl Session for Arc<RedisSession> {
    fn call(&self, requests: Group<Request>) -> BoxFuture<'static, Group<NodeAnswer>> {
        let server = Arc::clone(self);
        async move {
            let uptime = match requests.as_slice() {
                // Settings are checked again before a node is admitted.
                [Request::Prepare { .. }] => match fit(&server.wire).await {
                    Ok(info) => info.uptime,
                    Err(fault) => return smallvec![Err(fault)],
                },
                _ => Duration::ZERO,
            };
            server.answers(&requests, uptime).await
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let server = Arc::clone(self);
        async move {
            let ping = server.wire.send(|command| command.arg("PING"));
            match ping.await.and_then(Value::extract_error).map_err(fault) {
                // The user may lack this right: the server answers anyway.
                Ok(Value::SimpleString(text)) if text == "PONG" => Ok(()),
                Ok(other) => Err(Fault::Disconnected(format!("not PONG but {other:?}"))),
                Err(broken @ Fault::Disconnected(_)) => Err(broken),
                Err(_) => Ok(()),
            }
        }
        .boxed()
    }

    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<Fault> {
        self.wire.poll_closed(context).map(fault)
    }

    fn is_open_to_callers(&self) -> bool {
        true
    }

    fn server(&self) -> Option<&Incarnation> {
        Some(&self.incarnation)
    }
}

/// Connects. The caller bounds the time.
pub(super) async fn connect(client: &Client) -> Result<MultiplexedConnection, Fault> {
    let connection = client.get_multiplexed_async_connection_with_config(&config()).await;
    connection.map_err(unreachable)
}

/// Sends a command. The caller bounds the time.
pub(super) async fn query<T: FromRedisValue>(connection: &mut MultiplexedConnection, cmd: &Cmd) -> Result<T, Fault> {
    cmd.query_async(connection).await.map_err(fault)
}

pub(super) async fn info(connection: &mut MultiplexedConnection) -> Result<ServerInfo, Fault> {
    read(::redis::cmd("INFO").arg("default").query_async(connection).await)
}

/// Asks the server for `INFO`, and refuses one that can't keep locks.
async fn fit(wire: &Wire) -> Result<ServerInfo, Fault> {
    let info = read(wire.send(|it| it.arg("INFO").arg("default")).await)?;
    unfit(&info).map_or(Ok(info), Err)
}

fn read(info: RedisResult<Value>) -> Result<ServerInfo, Fault> {
    let text = match info.and_then(Value::extract_error).map_err(fault)? {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
        _ => return Err(invalid("INFO is not a text")),
    };
    ServerInfo::read(&text).map_err(Fault::InvalidReply)
}
