use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
use super::script::{self, Digests};
use super::stream::{self, config, settings};
use super::url::refused;
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
    let marker = script::marker(&me);
    let digests = load(&mut connection).await?;
    // Not from zero: a proxy may share a connection among clients, whose numbers must differ.
    let number = AtomicU64::new(random::u128() as u64);
    let context = Arc::new(SessionContext {
        keys,
        me,
        marker,
        signature,
        digests,
        flushed: AtomicBool::new(false),
    });
    Ok(Box::new(RedisSession { connection, context, number }))
}

/// The error that ends a session: see [`script::answer_to`].
const ANOTHERS: &str = "the answer is another request's";

struct RedisSession {
    connection: MultiplexedConnection,
    context: Arc<SessionContext>,
    /// The number of the next request.
    number: AtomicU64,
}

/// What all requests of a session have in common.
struct SessionContext {
    keys: Keys,
    me: Membership,
    /// The value of `admitted` where the node was admitted in this life, in this fleet.
    marker: String,
    /// The text behind the owner in a lock.
    signature: Arc<str>,
    digests: Digests,
    /// Whether the server has lost the scripts. Until the session ends, requests carry them.
    flushed: AtomicBool,
}

impl SessionContext {
    fn command(&self, request: &Request, number: u64) -> Cmd {
        let none = Digests::default();
        let digests = if self.flushed.load(Ordering::Relaxed) { &none } else { &self.digests };
        script::command(&self.keys, (&self.marker, &self.signature), digests, request, number)
    }
}

impl Session for RedisSession {
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        let mut connection = self.connection.clone();
        let context = Arc::clone(&self.context);
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let command = context.command(&request, number);
        async move {
            let incarnation = &context.me.incarnation;
            let uptime = match &request {
                // Settings are looked at again before a node is admitted.
                Request::Prepare { .. } => fit(&mut connection).await?.uptime,
                Request::Activate { incarnation: prepared, .. } if prepared != incarnation => {
                    return Ok(Reply::Forgotten);
                }
                _ => Duration::ZERO,
            };
            let mut answer = send(&mut connection, &command).await;
            if answer.as_ref().is_err_and(is_flushed) {
                context.flushed.store(true, Ordering::Relaxed);
                // Nothing is ever sent twice but a release, which may come late and often.
                if !request.is_release() {
                    return Err(Fault::Refused("the server has lost the scripts".into()));
                }
                let whole = context.command(&request, number);
                answer = send(&mut connection, &whole).await;
            }
            let value = answer.map_err(|error| fault(&error))?;
            let Some(parts) = script::answer_to(number, &value) else {
                return Err(Fault::Disconnected(ANOTHERS.into()));
            };
            let reply = script::reply(incarnation, uptime, parts);
            reply.ok_or_else(|| invalid(&format!("{value:?}")))
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
        Some(&self.context.me.incarnation)
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

/// Loads the scripts. A user who may not load them sends them with each request.
async fn load(connection: &mut MultiplexedConnection) -> Result<Digests, Fault> {
    match Digests::load().query_async(connection).await {
        Ok(digests) => Ok(Digests::of(digests)),
        Err(error) => match fault(&error) {
            Fault::Disconnected(text) => Err(Fault::Disconnected(text)),
            _ => Ok(Digests::default()),
        },
    }
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
