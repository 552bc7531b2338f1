//! The lock service that the options or the environment name, and locks of it.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use fencing::lock::redlock::{BuildError, Fleet, Node, RedisNode, RedlockBuilder, node_urls};
use fencing::lock::{AcquireError, ConnectError, ConnectOptions, Fault, Health, Lock, NodeCause, Operator};
use fencing::{Lease, Redlock, Resource};
use tokio::time::{sleep, timeout};

use crate::duration::{self, about};
use crate::exit::{Failure, Status};
use crate::pool::{connect, kind, on};
use crate::say;

pub(crate) const NAMESPACE: &str = "fencing";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Redis {
    /// The nodes: independent masters.
    #[arg(long = "redis", value_name = "URL,URL,...", env = "FENCING_REDIS", hide_env_values = true)]
    pub(crate) urls: String,
    /// Prefix of the keys on the nodes.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    pub(crate) namespace: String,
}

impl Redis {
    pub(crate) fn builder(&self) -> RedlockBuilder {
        Redlock::builder().redis(node_urls(&self.urls)).namespace(&self.namespace)
    }

    pub(crate) fn nodes(&self) -> Result<Vec<RedisNode>, BuildError> {
        node_urls(&self.urls).iter().map(|url| RedisNode::new(url, &self.namespace)).collect()
    }

    pub(crate) fn fleet(&self) -> Result<Fleet, BuildError> {
        let fleet = Fleet::new(self.nodes()?.iter().map(Node::member));
        fleet.map_err(|error| BuildError::new("redis", error.to_string()))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct LockUrl {
    /// The lock service: etcd://A,B,C, zookeeper://A,B,C/PATH, or as for --redis and --database [env: FENCING_LOCK].
    #[arg(long, value_name = "URL", conflicts_with_all = ["redis", "database"])]
    lock: Option<String>,
    /// The nodes: independent masters [env: FENCING_REDIS].
    #[arg(long, value_name = "URL,URL,...", conflicts_with = "database")]
    redis: Option<String>,
    /// A database: sqlite:PATH, postgres://... or mysql://... [env: FENCING_DATABASE].
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Prefix of the keys on nodes, in etcd or in ZooKeeper [default: fencing]. A database has no namespaces.
    #[arg(long, value_name = "NS")]
    namespace: Option<String>,
}

/// The lock service. Its URLs have the right scheme.
pub(crate) enum LockService {
    Redis(Redis),
    Database(String),
    /// etcd, ZooKeeper, or this process.
    Engine {
        url: String,
        namespace: String,
    },
}

impl LockService {
    pub(crate) fn options(&self) -> ConnectOptions {
        match self {
            LockService::Database(url) => ConnectOptions::new(url),
            LockService::Redis(Redis { urls: url, namespace }) | LockService::Engine { url, namespace } => {
                ConnectOptions::new(url).namespace(namespace)
            }
        }
    }

    /// Opens the leases of one service. Nodes have none: see [`findings`](crate::findings).
    pub(crate) async fn operator(&self) -> Result<Arc<dyn Operator>, Failure> {
        let LockService::Database(url) = self else { return self.options().operator().map_err(Failure::usage) };
        let pool = connect("the lock service", url, false, 1).await?;
        Ok(on!(pool, pool => Arc::new(pool)))
    }
}

const VARIABLES: [&str; 3] = ["FENCING_LOCK", "FENCING_REDIS", "FENCING_DATABASE"];
const OPTIONS: &str = "--lock, --redis or --database";

pub(crate) const NOT_FOR_LOCK: &str =
    "FENCING_LOCK is for run, serve, leases, release, watch, doctor and raise: this command has its own options";

impl LockUrl {
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE)
    }

    /// Reads the command line, or else the environment. A namespace beside a database is wrong.
    pub(crate) fn chosen(&self) -> Result<LockService, Failure> {
        let chosen = self.chosen_beside_redis_marks()?;
        let has_namespaces = !matches!(chosen, LockService::Database(_));
        let why = "--namespace is for nodes, etcd and ZooKeeper: in a database, the schema keeps locks apart";
        Failure::usage_unless(self.namespace.is_none() || has_namespaces, why).map(|()| chosen)
    }

    /// Does the same where the namespace may be that of marks in a Redis.
    pub(crate) fn chosen_beside_redis_marks(&self) -> Result<LockService, Failure> {
        let mut urls = [&self.lock, &self.redis, &self.database].map(Option::clone);
        if urls.iter().all(Option::is_none) {
            urls = VARIABLES.map(|name| env::var(name).ok());
        }
        let given = |(_, url): &(_, String)| !url.trim_matches([',', ' ']).is_empty();
        let named = VARIABLES.into_iter().zip(urls);
        let given: Vec<_> = named.filter_map(|(name, url)| Some((name, url?))).filter(given).collect();
        let set = "set FENCING_LOCK, FENCING_REDIS or FENCING_DATABASE";
        let (variable, url) = match &given[..] {
            [] => return Err(Failure::usage(format_args!("no lock service is given: give {OPTIONS}, or {set}"))),
            [(variable, url)] => (*variable, url.trim().to_owned()),
            [(one, _), (other, _), ..] => {
                let both = format_args!("both {one} and {other} are set: unset one of them, or give {OPTIONS}");
                return Err(Failure::usage(both));
            }
        };
        let wrong = |error| Failure::usage(format_args!("--lock: {error}"));
        let namespace = self.namespace().to_owned();
        let engine = match variable {
            "FENCING_LOCK" => ConnectOptions::new(&url).engine().map_err(wrong)?,
            "FENCING_REDIS" => "redis",
            _ => kind(&url).map(|_| "database")?,
        };
        match engine {
            "redis" => {
                let redis = Redis { urls: url, namespace };
                // Each is the URL of a Redis.
                redis.nodes()?;
                Ok(LockService::Redis(redis))
            }
            "database" | "postgres" | "mysql" | "sqlite" => Ok(LockService::Database(url)),
            _ => Ok(LockService::Engine { url, namespace }),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    url: LockUrl,
    /// Time limit for one answer [default: 50ms on nodes, otherwise 2s; at most a quarter of the TTL on nodes and in
    /// ZooKeeper, a third in etcd, half in a database].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    node_budget: Option<Duration>,
}

impl LockArgs {
    pub(crate) fn options(&self) -> Result<ConnectOptions, Failure> {
        let options = self.url.chosen()?.options();
        Ok(if let Some(budget) = self.node_budget { options.budget(budget) } else { options })
    }
}

pub(crate) struct ChosenLock {
    pub(crate) lock: Arc<dyn Lock>,
    /// The error of creating the tables of a database, if any.
    pub(crate) not_ready: Option<String>,
}

/// Time limit for requests in flight at the end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a wait looks whether the nodes can grant at all.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

impl ChosenLock {
    pub(crate) async fn open(options: ConnectOptions) -> Result<ChosenLock, Failure> {
        match options.connect().await {
            Ok(lock) => Ok(ChosenLock { lock, not_ready: None }),
            Err(ConnectError::NotReady { lock, source, .. }) => match Failure::of(&*source) {
                // No wait helps.
                refused @ Failure { status: Status::REFUSED, .. } => Err(refused),
                // It may come up later.
                failure => Ok(ChosenLock { lock, not_ready: Some(failure.message) }),
            },
            Err(error) => Err(Failure::usage(error)),
        }
    }

    /// Waits for the lock. Says once if it waits for a quarantine, which can be long, or for servers, and ends where no
    /// wait helps.
    pub(crate) async fn acquire(&self, resource: &Resource, wait: Duration) -> Result<Lease, AcquireError> {
        let (mut said, mut is_down) = (false, false);
        let acquired = async {
            if wait.is_zero() { self.lock.try_acquire(resource).await } else { self.lock.acquire(resource).await }
        };
        let moved = async {
            loop {
                sleep(HEALTH_INTERVAL).await;
                let health = self.lock.health().await;
                if let Some(closed) = closed(&health).filter(|_| !said) {
                    say::error(format_args!("waiting: {closed}"));
                    said = true;
                } else if !health.has_quorum() && !std::mem::replace(&mut is_down, true) {
                    say::error(format_args!("waiting: {}", say::listed(&health.causes, "; ")));
                }
                if has_moved(&health) {
                    return;
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = acquired => outcome,
            () = moved => self.lock.try_acquire(resource).await,
        };
        match outcome {
            Err(AcquireError::NoQuorum { .. }) if !said => {
                closed(&self.lock.health().await).iter().for_each(say::error);
            }
            Err(AcquireError::Unavailable { .. }) => self.not_ready.iter().for_each(say::error),
            _ => {}
        }
        outcome
    }

    /// Waits for releases in flight, and for nodes that are being re-admitted.
    pub(crate) async fn settle(&self) {
        let _ = timeout(SETTLE_TIMEOUT, self.lock.settle()).await;
    }
}

/// Reports whether too few nodes belong to this fleet for any wait to help.
fn has_moved(health: &Health) -> bool {
    let minority = health.fleet.len().saturating_sub(health.needed);
    health.causes.iter().filter(|cause| cause.cause.is_elsewhere()).count() > minority
}

/// Says for how long quarantines keep a majority from granting, and how to end them.
pub(crate) fn closed(health: &Health) -> Option<String> {
    let quarantine = |cause: &NodeCause| if let Fault::Quarantined(left) = cause.cause { Some(left) } else { None };
    let mut times: Vec<Duration> = health.causes.iter().filter_map(quarantine).collect();
    times.sort_unstable();
    let in_the_way = health.needed.checked_sub(health.granting + 1)?;
    // `None` if too few would grant even after all quarantines.
    let left = about(*times.get(in_the_way)?);
    Some(match health.fleet.is_empty() {
        true => format!("no lock is granted for another {left}, until earlier leases have ended"),
        false => format!(
            "too few nodes grant for another {left}, until the locks that they may have forgotten have \
             expired; `fencing fleet recover --now` says when and how to end that"
        ),
    })
}
