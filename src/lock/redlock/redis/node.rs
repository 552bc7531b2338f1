use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisError, ServerErrorKind, Value,
};
use fencing_protocol::{ClientId, Fault, Fleet, Incarnation, Membership, Reply, Request};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::fault::{fault, invalid, unfit, unreachable};
use super::keys::Keys;
use super::listener::RedisListener;
use super::reply;
use super::scripts::Scripts;
use super::stream::{self, config, settings};
use super::url::refused;
use crate::lock::redlock::group::GroupKind;
use crate::lock::redlock::{BuildError, Node, Opened, Session};
use crate::lock::wait::listener::ReleaseListener;
use crate::random;
use crate::server_info::ServerInfo;

/// One Redis master without failover, as Redlock asks.
#[derive(Debug, Clone)]
pub struct RedisNode {
    pub(super) name: String,
    member: String,
    pub(super) client: Client,
    pub(super) keys: Keys,
    /// The text behind the owner in the locks of its client: a space and the client's name, or nothing.
    signature: Arc<str>,
}

impl RedisNode {
    /// Returns the node at this URL: `redis://`, `rediss://` or `unix://`, with ACL user,
    /// password and database number if you need them. It does not connect yet.
    ///
    /// Its name in the fleet is the URL without user and password, or what you write in front of
    /// it, as in `a=redis://10.0.0.5:6379`: a node with a name of its own may change its address. So may any
    /// other that keeps its name, as in `redis://10.0.0.5:6379=redis://10.0.0.9:6379`.
    /// Every client must give the nodes the same names.
    ///
    /// `rediss://` trusts the system's certificates, or those in the file that the
    /// environment variable `SSL_CERT_FILE` names.
    ///
    /// # Errors
    /// [`BuildError`] says which part of the URL is wrong, or that the namespace cannot be part
    /// of a key.
    pub fn new(url: &str, namespace: &str) -> Result<RedisNode, BuildError> {
        let fits = !namespace.is_empty()
            && namespace.len() <= 64
            && !namespace.contains(|c: char| c.is_control() || c == '{' || c == '}');
        if !fits {
            let rule = "1 to 64 bytes, no control characters, no braces";
            return Err(BuildError::new("namespace", rule));
        }
        let whole = url;
        let (given, url) = match url.split_once('=') {
            // A name may be the URL that the node had before, which has neither a password nor parameters.
            Some((name, url))
                if !name.contains("://") || (url.contains("://") && !name.contains(['?', '@'])) =>
            {
                (Some(name.trim()), url.trim())
            }
            _ => (None, url),
        };
        let info = url.into_connection_info().map_err(|_| refused(whole, url))?;
        let info = info.set_tcp_settings(settings());
        let user = info.redis_settings().username().map(|user| format!("{user}@"));
        let scheme = match info.addr() {
            ConnectionAddr::Tcp(..) => "redis",
            ConnectionAddr::TcpTls { .. } => {
                // A provider that the program has installed stays.
                let _ = rustls::crypto::ring::default_provider().install_default();
                "rediss"
            }
            _ => "unix",
        };
        let database = match info.redis_settings().db() {
            0 => String::new(),
            number => format!("/{number}"),
        };
        let address = format!("{}{database}", info.addr());
        // Clients may be different users of one node.
        let (name, member) = match given {
            Some(name) => (name.to_owned(), name.to_owned()),
            None => {
                let user = user.unwrap_or_default();
                (format!("{scheme}://{user}{address}"), format!("{scheme}://{address}"))
            }
        };
        let client = Client::open(info).map_err(|_| refused(whole, url))?;
        Ok(RedisNode { name, member, client, keys: Keys::new(namespace), signature: "".into() })
    }
}

impl Node for RedisNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn member(&self) -> &str {
        &self.member
    }

    fn named(&self, holder: &str) -> Option<Arc<dyn Node>> {
        Some(Arc::new(RedisNode { signature: format!(" {holder}").into(), ..self.clone() }))
    }

    fn open(&self, fleet: &Fleet) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (client, place) = (self.client.clone(), (self.keys.clone(), self.signature.clone()));
        let fleet = fleet.clone();
        async move { begin(connect(&client).await?, place, fleet).await }.boxed()
    }

    fn open_driven(&self, fleet: &Fleet) -> BoxFuture<'static, Result<Opened, Fault>> {
        let (client, place) = (self.client.clone(), (self.keys.clone(), self.signature.clone()));
        let fleet = fleet.clone();
        async move {
            let Some((connection, mut motion)) = stream::connect(&client).await? else {
                let session = begin(connect(&client).await?, place, fleet).await?;
                return Ok(Opened { session, motion: None });
            };
            let mut session = pin!(begin(connection, place, fleet));
            let mut closed = false;
            let session = poll_fn(|context| {
                // If the connection breaks, each request on it fails.
                closed = closed || motion.as_mut().poll(context).is_ready();
                session.as_mut().poll(context)
            })
            .await?;
            // The server may have answered before it closed. `motion` is over then, and must not be polled again.
            if closed {
                return Err(Fault::Unreachable("the server has closed the connection".into()));
            }
            Ok(Opened { session, motion: Some(motion) })
        }
        .boxed()
    }

    fn listen(
        &self,
        client: ClientId,
    ) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
        RedisListener::open(self.client.clone(), self.keys.clone(), client)
    }
}

/// Reads who the server is, loads the scripts, and makes the session.
async fn begin(
    mut connection: MultiplexedConnection,
    (keys, signature): (Keys, Arc<str>),
    fleet: Fleet,
) -> Result<Box<dyn Session>, Fault> {
    let incarnation = Incarnation::new(&fit(&mut connection).await?.run_id);
    let me = Membership { incarnation, fleet };
    let mut scripts = Scripts::new(keys, signature, &me);
    match scripts.load().query_async(&mut connection).await {
        Ok(digests) => scripts.loaded(digests),
        // A user who may not load the scripts sends them with each request.
        Err(error) => {
            if let fault @ Fault::Disconnected(_) = fault(&error) {
                return Err(fault);
            }
        }
    }
    // Not from zero: a proxy may share a connection among clients, whose numbers must differ.
    let number = AtomicU64::new(random::u128() as u64);
    let incarnation = me.incarnation;
    Ok(Box::new(RedisSession { connection, incarnation, scripts: Arc::new(scripts), number }))
}

/// The error that ends a session: see [`reply::answer_to`].
const ANOTHERS: &str = "the answer is another request's";

struct RedisSession {
    connection: MultiplexedConnection,
    incarnation: Incarnation,
    scripts: Arc<Scripts>,
    /// The number of the next request.
    number: AtomicU64,
}

/// One call of a session.
struct Call {
    connection: MultiplexedConnection,
    incarnation: Incarnation,
    scripts: Arc<Scripts>,
    number: u64,
}

impl Call {
    /// Sends requests as one command. Returns what comes back behind the number, or `None` if nothing was run, because
    /// the server has lost the scripts.
    async fn ask(&mut self, requests: &[Request]) -> Result<Option<Vec<Value>>, Fault> {
        let command = self.scripts.command(requests, self.number);
        let answer = send(&mut self.connection, &command).await;
        if answer.as_ref().is_err_and(is_flushed) {
            self.scripts.flushed();
            return Ok(None);
        }
        let value = answer.map_err(|error| fault(&error))?;
        let parts = reply::answer_to(self.number, value);
        parts.map(Some).ok_or_else(|| Fault::Disconnected(ANOTHERS.into()))
    }

    async fn group(
        &mut self,
        requests: &[Request],
    ) -> Result<Option<Vec<Result<Reply, Fault>>>, Fault> {
        let Some(parts) = self.ask(requests).await? else { return Ok(None) };
        let answers = reply::group(&self.incarnation, requests, &parts);
        answers.map(Some).ok_or_else(|| invalid(&format!("{parts:?}")))
    }
}

impl RedisSession {
    fn begin(&self) -> Call {
        let (connection, incarnation) = (self.connection.clone(), self.incarnation.clone());
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        Call { connection, incarnation, scripts: Arc::clone(&self.scripts), number }
    }
}

fn lost_scripts() -> Fault {
    Fault::Refused("the server has lost the scripts".into())
}

impl Session for RedisSession {
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        if GroupKind::of(&request).is_some() {
            let answers = self.call_each(vec![request]);
            return answers
                .map(|answers| answers.into_iter().collect::<Result<Vec<_>, _>>())
                .map(|replies| replies?.pop().ok_or_else(|| invalid("no answer")))
                .boxed();
        }
        let mut call = self.begin();
        async move {
            let uptime = match &request {
                // Settings are looked at again before a node is admitted.
                Request::Prepare { .. } => fit(&mut call.connection).await?.uptime,
                Request::Activate { incarnation, .. } if *incarnation != call.incarnation => {
                    return Ok(Reply::Forgotten);
                }
                _ => Duration::ZERO,
            };
            let requests = std::slice::from_ref(&request);
            let mut parts = call.ask(requests).await?;
            if parts.is_none() && request.is_release() {
                parts = call.ask(requests).await?;
            }
            let parts = parts.ok_or_else(lost_scripts)?;
            let reply = reply::reply(&call.incarnation, uptime, &parts);
            reply.ok_or_else(|| invalid(&format!("{parts:?}")))
        }
        .boxed()
    }

    fn call_each(&self, requests: Vec<Request>) -> BoxFuture<'static, Vec<Result<Reply, Fault>>> {
        let mut call = self.begin();
        async move {
            match call.group(&requests).await {
                Ok(Some(answers)) => return answers,
                Err(fault) => return vec![Err(fault); requests.len()],
                Ok(None) => {}
            }
            // Nothing is ever sent twice but a release, which may come late and often.
            let is_release = |request: &&Request| request.is_release();
            let releases: Vec<Request> = requests.iter().filter(is_release).cloned().collect();
            let answers = match releases.as_slice() {
                [] => Ok(None),
                releases => call.group(releases).await,
            };
            let mut answers = match answers {
                Ok(answers) => answers.unwrap_or_default(),
                Err(fault) => vec![Err(fault); releases.len()],
            }
            .into_iter();
            let next = |request: &Request| if request.is_release() { answers.next() } else { None };
            requests.iter().map(next).map(|it| it.unwrap_or_else(|| Err(lost_scripts()))).collect()
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let mut connection = self.connection.clone();
        async move {
            let answer: Result<Value, RedisError> =
                ::redis::cmd("PING").query_async(&mut connection).await;
            match answer.as_ref().map_err(fault) {
                // A user may not be permitted to ask: the server answers all the same.
                Ok(Value::SimpleString(text)) if text == "PONG" => Ok(()),
                Ok(other) => Err(Fault::Disconnected(format!("not PONG but {other:?}"))),
                Err(Fault::Disconnected(text)) => Err(Fault::Disconnected(text)),
                Err(_) => Ok(()),
            }
        }
        .boxed()
    }

    fn server(&self) -> Option<&Incarnation> {
        Some(&self.incarnation)
    }
}

/// Sends a command, without the box in which the driver's trait would put it.
async fn send(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, RedisError> {
    connection.send_packed_command(command).await?.extract_error()
}

/// Connects. The caller bounds the time.
pub(super) async fn connect(client: &Client) -> Result<MultiplexedConnection, Fault> {
    let connection = client.get_multiplexed_async_connection_with_config(&config()).await;
    connection.map_err(|error| unreachable(&error))
}

fn is_flushed(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Asks the server for `INFO`.
pub(super) async fn info(connection: &mut MultiplexedConnection) -> Result<ServerInfo, Fault> {
    let mut command = ::redis::cmd("INFO");
    let text = command.arg("default").query_async::<Value>(connection).await;
    let text = match text.map_err(|error| fault(&error))? {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
        _ => return Err(invalid("INFO is not a text")),
    };
    ServerInfo::read(&text).map_err(Fault::InvalidReply)
}

/// Asks the server for `INFO`, and refuses one that can't keep locks.
async fn fit(connection: &mut MultiplexedConnection) -> Result<ServerInfo, Fault> {
    let info = info(connection).await?;
    unfit(info.loading, info.master, info.maxmemory, &info.policy).map_or(Ok(info), Err)
}
