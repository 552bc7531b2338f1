use std::collections::BTreeMap;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, interval, sleep, timeout};

use super::listener::ReleaseListener;
use super::notifications::ListenerTask;
use crate::random::jitter;

/// How long a server may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// For how long the way to a server stays open when nobody waits.
const LINGER: Duration = Duration::from_secs(5);
/// The pauses before a way is opened again that broke, the shortest and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Somebody who is told in vain has the next one told, so many at a time: forged notifications are not worth it.
const MOST_LEFT: usize = 64;

/// How a server takes the waits of a client.
pub(crate) type Opening = BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>>;

/// Hears what one server tells those who wait, until nobody waits any more.
pub(crate) async fn run(mut task: ListenerTask, name: String, open: impl Fn() -> Opening) {
    let mut pause = PAUSE;
    loop {
        let start = Instant::now();
        let opening = timeout(ANSWER_LIMIT, open()).await;
        let fault = match opening.unwrap_or(Err(Fault::TimedOut)) {
            Ok(listener) => match hear(&mut task, listener).await {
                Some(fault) => fault,
                None => return,
            },
            Err(fault) => fault,
        };
        task.closed();
        if matches!(fault, Fault::Denied(_) | Fault::Refused(_)) && task.is_news() {
            tracing::warn!(node = name, %fault, "releases are not told: waiting asks now and again");
        } else {
            tracing::debug!(node = name, %fault, "releases are not told");
        }
        if start.elapsed() > LONGEST_PAUSE {
            pause = PAUSE;
        }
        sleep(pause / 2 + jitter(pause / 2)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        if task.ends_if_idle() {
            return;
        }
    }
}

type Noting = BoxFuture<'static, (Resource, u64, Result<Option<bool>, Fault>)>;

/// Hears what the server tells, until nobody waits, or until it tells nothing any more: returns why.
async fn hear(task: &mut ListenerTask, mut listener: Box<dyn ReleaseListener>) -> Option<Fault> {
    let mut changes = task.changes();
    let (notifications, source) = (task.notifications.clone(), task.source);
    let mut noted = Noted::default();
    let mut calls = FuturesUnordered::<Noting>::new();
    let mut idle = interval(LINGER);
    let mut used = Instant::now();
    loop {
        tokio::select! {
            biased;
            Some((resource, ticket, answer)) = calls.next(), if !calls.is_empty() => match answer {
                Ok(Some(free)) => notifications.noted(&resource, ticket, source, free),
                Ok(None) => {}
                Err(fault) => return Some(fault),
            },
            Some(resource) = changes.recv() => {
                used = Instant::now();
                let wanted = notifications.wanted(&resource);
                if let Some(old) = noted.0.remove(&resource)
                    && wanted.is_none_or(|(ticket, _)| ticket != old)
                {
                    calls.push(noted.leave(&mut *listener, &resource, old));
                }
                if let Some((ticket, since)) = wanted {
                    calls.push(noted.wait(&mut *listener, &resource, ticket, since));
                }
            }
            told = listener.notified() => match told {
                Ok((resource, ticket)) => {
                    let keeps = listener.keeps();
                    if !keeps {
                        noted.0.remove(&resource);
                    }
                    if !notifications.notify(&resource, ticket, source) && !keeps && calls.len() < MOST_LEFT {
                        // Somebody else may take it.
                        calls.push(noted.leave(&mut *listener, &resource, ticket));
                    }
                }
                Err(fault) => return Some(fault),
            },
            _ = idle.tick() => {
                if used.elapsed() >= LINGER && task.ends_if_idle() {
                    return None;
                }
            }
        }
    }
}

/// The tickets that the server has noted.
#[derive(Default)]
struct Noted(BTreeMap<Resource, u64>);

impl Noted {
    fn wait(
        &mut self,
        listener: &mut dyn ReleaseListener,
        resource: &Resource,
        ticket: u64,
        since: Instant,
    ) -> Noting {
        self.0.insert(resource.clone(), ticket);
        let call = listener.wait(resource, ticket, since.elapsed());
        let resource = resource.clone();
        async move {
            let answer = timeout(ANSWER_LIMIT, call).await.unwrap_or(Err(Fault::TimedOut));
            (resource, ticket, answer.map(Some))
        }
        .boxed()
    }

    fn leave(
        &mut self,
        listener: &mut dyn ReleaseListener,
        resource: &Resource,
        ticket: u64,
    ) -> Noting {
        let call = listener.leave(resource, ticket);
        let resource = resource.clone();
        async move {
            let answer = timeout(ANSWER_LIMIT, call).await.unwrap_or(Err(Fault::TimedOut));
            (resource, ticket, answer.map(|()| None))
        }
        .boxed()
    }
}
