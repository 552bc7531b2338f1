use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fencing_protocol::Fault;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::{once, pending};
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};
use tonic_prost::ProstCodec;

use super::fault::{EtcdFailure, causes, needs_login, unconnected};
use super::keys::Span;
use super::messages::{Authenticate, EtcdAnswer, EtcdRequest, LeaseAnswer, LeaseKeepAlive, Status, Watch, WatchCreate};
use super::url::EtcdUrl;

/// A runtime's channels are forgotten beyond this many runtimes: they are opened again.
const MAX_RUNTIMES: usize = 8;

/// The members of one cluster. A request goes to the one that has answered last.
#[derive(derive_more::Debug)]
#[debug("{}", self.name())]
pub(super) struct EtcdClient {
    members: Vec<Member>,
    preferred: AtomicUsize,
    user: Option<(String, String)>,
    /// The token of the user, once it has logged in.
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// The cluster that has answered first, or zero.
    cluster: AtomicU64,
    /// Whether the members were asked for their clusters.
    checked: AtomicBool,
}

struct Member {
    name: String,
    endpoint: Endpoint,
    /// The channel of each runtime, whose task moves its bytes.
    channels: Mutex<HashMap<Id, Arc<OnceCell<Channel>>>>,
    /// How often its connections were given up. It ends the watches on them.
    given_up: watch::Sender<u64>,
}

/// How a request is treated whose answer is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is sent to the next member.
    Elsewhere,
    /// It may still take effect.
    Never,
}

impl EtcdClient {
    pub(super) fn new(EtcdUrl { members, user }: EtcdUrl) -> EtcdClient {
        let member =
            |(name, endpoint)| Member { name, endpoint, channels: Mutex::default(), given_up: watch::Sender::new(0) };
        let members = members.into_iter().map(member).collect();
        let (preferred, token, cluster, checked) = Default::default();
        EtcdClient { members, preferred, user, token, cluster, checked }
    }

    pub(super) fn name(&self) -> String {
        let names: Vec<&str> = self.members.iter().map(|member| &*member.name).collect();
        format!("etcd://{}", names.join(","))
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (usize, &str)> {
        self.members.iter().map(|member| &*member.name).enumerate()
    }

    /// Sends a request to the first member that can be asked, and returns its answer and the number of the member.
    pub(super) async fn call<Q: EtcdRequest>(
        &self,
        request: &Q,
        budget: Duration,
        repeat: Repeat,
    ) -> Result<(Q::Answer, usize), EtcdFailure> {
        let (end, first) = (Instant::now() + budget, self.preferred.load(Ordering::Relaxed));
        let mut failure = EtcdFailure::unsent(Fault::TimedOut);
        let mut may_recover = false;
        for left in (1..=self.members.len()).rev() {
            let number = (first + self.members.len() - left) % self.members.len();
            let now = Instant::now();
            // A part of the budget is left for each of the others.
            let slice = now + end.saturating_duration_since(now) / if left > 1 { 2 } else { 1 };
            let limit = if repeat == Repeat::Elsewhere { slice } else { end };
            let asked = self.ask_member(number, request, slice, limit).await;
            may_recover |= asked.as_ref().is_err_and(|next| next.elsewhere && !matches!(next.fault, Fault::Denied(_)));
            match asked {
                Ok(answer) => {
                    if number != first {
                        self.preferred.store(number, Ordering::Relaxed);
                    }
                    return Ok((answer, number));
                }
                // A member that refuses this client names the fault that the operator must fix.
                Err(next) if next.elsewhere && matches!(failure.fault, Fault::Denied(_)) => {
                    failure.in_doubt |= next.in_doubt;
                }
                Err(next) => failure = next,
            }
            if !failure.elsewhere {
                break;
            }
            self.give_up(number);
            if failure.in_doubt && repeat == Repeat::Never {
                break;
            }
        }
        // Another member may come back, so a wait may help: `Denied` would end the wait.
        if may_recover && let Fault::Denied(text) = failure.fault {
            failure.fault = Fault::NotNow(text);
        }
        Err(failure)
    }

    /// Sends a request that may be sent again, if the answer of a member is lost.
    pub(super) async fn ask<Q: EtcdRequest>(&self, request: &Q, budget: Duration) -> Result<Q::Answer, EtcdFailure> {
        Ok(self.call(request, budget, Repeat::Elsewhere).await?.0)
    }

    /// Sends a request to this member, which must be connected by the first of these times and answer by the second.
    pub(super) async fn ask_member<Q: EtcdRequest>(
        &self,
        number: usize,
        request: &Q,
        connected: Instant,
        answered: Instant,
    ) -> Result<Q::Answer, EtcdFailure> {
        let channel = timeout_at(connected, self.channel(number)).await;
        let channel = channel.unwrap_or(Err(EtcdFailure::unsent(Fault::TimedOut)))?;
        let answer = timeout_at(answered, self.send(&channel, request)).await;
        let answer = answer.unwrap_or(Err(EtcdFailure::lost(Fault::TimedOut)))?;
        self.pin(answer.header().cluster)?;
        Ok(answer)
    }

    /// Checks once that the members that answer within the limit belong to one cluster, which is the only one from then on.
    /// Otherwise a lock would have two holders, by the member that each client reaches first.
    pub(super) async fn check_members(&self, limit: Duration) -> Result<(), EtcdFailure> {
        if self.checked.load(Ordering::Acquire) {
            return Ok(());
        }
        let asked = self.members().map(async |(number, _)| {
            // Members are asked for their state without a login.
            let status = async { self.unary(&self.channel(number).await.ok()?, &Status {}, None).await.ok() };
            Some(timeout(limit, status).await.ok()??.header().cluster)
        });
        let found: Vec<u64> = join_all(asked).await.into_iter().flatten().collect();
        let mixed = found.iter().zip(found.iter().skip(1)).find(|(one, other)| one != other);
        if let Some((one, other)) = mixed {
            return Err(two_clusters(*one, *other));
        }
        if let Some(found) = found.first() {
            self.pin(*found)?;
            self.checked.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(super) async fn prolong(&self, number: usize, id: i64, budget: Duration) -> Result<LeaseAnswer, EtcdFailure> {
        let kept = async {
            let channel = self.channel(number).await?;
            let requests = once(async move { LeaseKeepAlive { id } });
            let mut answers = self.stream::<LeaseKeepAlive>(&channel, requests).await?;
            let answer = answers.message().await.map_err(|status| EtcdFailure::of(&status))?;
            answer.ok_or_else(|| EtcdFailure::lost(Fault::Disconnected("no answer".into())))
        };
        let kept = timeout(budget, kept).await.unwrap_or(Err(EtcdFailure::lost(Fault::TimedOut)));
        if kept.as_ref().is_err_and(|failure| failure.elsewhere) {
            self.give_up(number);
        }
        kept
    }

    /// Waits until one of these keys is deleted after the revision `seen`, and returns the revision then. The watch is
    /// set up within the budget. Fails where no more is heard.
    pub(super) async fn deleted(&self, (key, end): Span, seen: i64, budget: Duration) -> Result<i64, EtcdFailure> {
        let number = self.preferred.load(Ordering::Relaxed);
        let mut given_up = self.member(number)?.given_up.subscribe();
        let create = WatchCreate { key, end, start: seen + 1, filters: vec![0] };
        let request = Watch { create: Some(create) };
        // The watch ends with the requests.
        let requests = once(async move { request }).chain(pending());
        let watch = async { self.stream::<Watch>(&self.channel(number).await?, requests).await };
        let mut answers = timeout(budget, watch).await.unwrap_or(Err(EtcdFailure::lost(Fault::TimedOut)))?;
        let lost = |text: &str| EtcdFailure::lost(Fault::Disconnected(text.to_owned()));
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer.map_err(|status| EtcdFailure::of(&status))?,
                _ = given_up.changed() => return Err(lost("the member does not answer")),
            };
            match answer {
                Some(answer) if answer.canceled => return Err(lost(&answer.reason)),
                Some(answer) if answer.events.is_empty() => {}
                Some(answer) => return Ok(answer.header().revision),
                None => return Err(lost("the watch has ended")),
            }
        }
    }

    /// Closes the connections to a member, and asks the next one first.
    fn give_up(&self, number: usize) {
        let next = (number + 1) % self.members.len();
        let _ = self.preferred.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
        if let (Ok(member), Ok(runtime)) = (self.member(number), Handle::try_current()) {
            member.channels.lock().remove(&runtime.id());
            member.given_up.send_modify(|times| *times += 1);
        }
    }

    fn member(&self, number: usize) -> Result<&Member, EtcdFailure> {
        self.members.get(number).ok_or_else(|| EtcdFailure::unsent(Fault::NoRuntime))
    }

    async fn channel(&self, number: usize) -> Result<Channel, EtcdFailure> {
        let member = self.member(number)?;
        let runtime = Handle::try_current().map_err(|_| EtcdFailure::unsent(Fault::NoRuntime))?.id();
        let channel = {
            let mut channels = member.channels.lock();
            if channels.len() >= MAX_RUNTIMES && !channels.contains_key(&runtime) {
                channels.clear();
            }
            Arc::clone(channels.entry(runtime).or_default())
        };
        // One caller connects, and the others of its runtime wait for it.
        let connected = channel.get_or_try_init(|| member.endpoint.connect()).await;
        connected.cloned().map_err(|error| unconnected(&member.name, &causes(&error)))
    }

    async fn send<Q: EtcdRequest>(&self, channel: &Channel, request: &Q) -> Result<Q::Answer, EtcdFailure> {
        let token = self.login(channel).await?;
        let answer = match self.unary(channel, request, token.clone()).await {
            Err(status) if self.user.is_some() && needs_login(&status) => {
                self.forget(token);
                self.unary(channel, request, self.login(channel).await?).await
            }
            answer => answer,
        };
        answer.map_err(|status| EtcdFailure::of(&status))
    }

    async fn unary<Q: EtcdRequest>(
        &self,
        channel: &Channel,
        request: &Q,
        token: Option<MetadataValue<Ascii>>,
    ) -> Result<Q::Answer, tonic::Status> {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.map_err(|error| tonic::Status::unknown(causes(&error)))?;
        let request = signed(request.clone(), token);
        let codec = ProstCodec::<Q, Q::Answer>::default();
        Ok(grpc.unary(request, PathAndQuery::from_static(Q::PATH), codec).await?.into_inner())
    }

    async fn stream<Q: EtcdRequest>(
        &self,
        channel: &Channel,
        requests: impl futures_util::Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<Q::Answer>, EtcdFailure> {
        let token = self.login(channel).await?;
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.map_err(|error| EtcdFailure::lost(Fault::Disconnected(causes(&error))))?;
        let codec = ProstCodec::<Q, Q::Answer>::default();
        let answers = grpc.streaming(signed(requests, token.clone()), PathAndQuery::from_static(Q::PATH), codec).await;
        answers.map(tonic::Response::into_inner).map_err(|status| {
            if needs_login(&status) {
                self.forget(token);
            }
            EtcdFailure::of(&status)
        })
    }

    /// Returns the token of the user, if there is one.
    async fn login(&self, channel: &Channel) -> Result<Option<MetadataValue<Ascii>>, EtcdFailure> {
        let Some((name, password)) = self.user.clone() else { return Ok(None) };
        if let Some(token) = self.token.lock().clone() {
            return Ok(Some(token));
        }
        let request = Authenticate { name, password };
        // Nothing has been asked of the lock.
        let unsent = |failure| EtcdFailure { in_doubt: false, ..failure };
        let token = match self.unary(channel, &request, None).await {
            Ok(answer) => MetadataValue::try_from(answer.token).ok(),
            // Users are not asked for their passwords there.
            Err(status) if status.code() == Code::FailedPrecondition => return Ok(None),
            Err(status) => return Err(unsent(EtcdFailure::of(&status))),
        };
        self.token.lock().clone_from(&token);
        Ok(token)
    }

    /// Forgets this token, unless another caller has a newer one already.
    fn forget(&self, token: Option<MetadataValue<Ascii>>) {
        let mut known = self.token.lock();
        if *known == token {
            *known = None;
        }
    }

    /// Checks that it is the cluster that has answered before.
    fn pin(&self, found: u64) -> Result<(), EtcdFailure> {
        let known = self.cluster.compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire);
        match known {
            Err(known) if known != found => Err(two_clusters(known, found)),
            _ => Ok(()),
        }
    }
}

fn two_clusters(known: u64, found: u64) -> EtcdFailure {
    EtcdFailure::unsent(Fault::Denied(format!(
        "a member belongs to the cluster {found:x}, and another one to {known:x}: give members of one cluster, or, if \
         the cluster was restored or created again, stop all clients, run `fencing raise`, and start them again"
    )))
}

fn signed<T>(message: T, token: Option<MetadataValue<Ascii>>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    // A member without a leader says so at once.
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}
