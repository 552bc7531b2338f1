use std::time::Duration;

use ::redis::aio::{MultiplexedConnection, SendError};
use ::redis::{Client, Cmd, ProtocolVersion, PushInfo, PushKind, RedisError, Value};
use fencing_protocol::{ClientId, Fault, Resource};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::fault::fault;
use super::keys::RedisKeys;
use super::stream::config;
use crate::lock::wait::release_notifications::{Notice, ReleaseListener};

const WAIT: &str = concat!(include_str!("free.lua"), include_str!("wait.lua"));
const LEAVE: &str = concat!(include_str!("free.lua"), include_str!("notify.lua"), include_str!("leave.lua"));

/// How long a node keeps a waiter registered. A client that waits longer asks now and again, and is registered again.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(60);
/// The most unread notifications. More are dropped, as others may be lost.
const MAX_QUEUED: usize = 1024;

/// A connection of its own, on which a server notifies one client of releases: on a channel for this client alone.
pub(super) struct RedisListener {
    connection: MultiplexedConnection,
    keys: RedisKeys,
    client: ClientId,
    notified: mpsc::Receiver<(Resource, u64)>,
    calls: FuturesUnordered<BoxFuture<'static, Result<Notice, Fault>>>,
}

impl RedisListener {
    /// Connects and subscribes. The caller bounds the time. It takes a server that speaks RESP3, from 6.0.
    pub(super) async fn open(client: Client, keys: RedisKeys, id: ClientId) -> Result<Box<dyn ReleaseListener>, Fault> {
        let info = client.get_connection_info();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info = info.clone().set_redis_settings(settings);
        let client = Client::open(info).map_err(fault)?;
        let (sender, notified) = mpsc::channel(MAX_QUEUED);
        let sender = Mutex::new(Some(sender));
        // A full queue loses hints only.
        let config = config().set_push_sender(move |push: PushInfo| {
            let mut sender = sender.lock();
            match push.kind {
                PushKind::Disconnection => *sender = None,
                PushKind::Message => {
                    if let Some((sender, notified)) = sender.as_ref().zip(parse(&push.data)) {
                        let _ = sender.try_send(notified);
                    }
                }
                _ => {}
            }
            Ok::<(), SendError>(())
        });
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.map_err(fault)?;
        connection.subscribe(keys.channel(id)).await.map_err(fault)?;
        let calls = FuturesUnordered::new();
        let listener = RedisListener { connection, keys, client: id, notified, calls };
        Ok(Box::new(listener))
    }

    fn script(&self, script: &str, resource: &Resource) -> Cmd {
        let mut cmd = ::redis::cmd("EVAL");
        cmd.arg(self.keys.constants() + script).arg(1);
        self.keys.write_lock(&mut cmd, resource);
        cmd
    }

    fn run(&self, command: Cmd, notice: impl FnOnce(bool) -> Notice + Send + 'static) {
        let mut connection = self.connection.clone();
        let call = async move {
            let answer: Result<i64, RedisError> = command.query_async(&mut connection).await;
            answer.map(|number| notice(number == 1)).map_err(fault)
        };
        self.calls.push(call.boxed());
    }
}

impl ReleaseListener for RedisListener {
    fn wait(&mut self, resource: &Resource, ticket: u64, waited: Duration) {
        let mut cmd = self.script(WAIT, resource);
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        cmd.arg(format!("{} {ticket}", self.client)).arg(waited).arg(REGISTRATION_TIMEOUT.as_millis() as u64);
        let resource = resource.clone();
        self.run(cmd, move |free| Notice::Registered { resource, registration: ticket, free });
    }

    fn leave(&mut self, resource: &Resource, ticket: u64) {
        let mut cmd = self.script(LEAVE, resource);
        cmd.arg(format!("{} {ticket}", self.client)).arg(self.client.to_string());
        self.run(cmd, |_| Notice::Left);
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
        async {
            tokio::select! {
                biased;
                Some(answer) = self.calls.next() => answer,
                notified = self.notified.recv() => {
                    let gone = || Fault::Disconnected("the server closed the connection".into());
                    let (resource, ticket) = notified.ok_or_else(gone)?;
                    Ok(Notice::Released { resource, registration: ticket })
                }
            }
        }
        .boxed()
    }
}

/// Reads a message: the channel, and the ticket with the resource. `None` if no script of ours wrote it.
fn parse(data: &[Value]) -> Option<(Resource, u64)> {
    let [_, Value::BulkString(text)] = data else { return None };
    let (ticket, resource) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((Resource::new(resource).ok()?, ticket.parse().ok()?))
}
