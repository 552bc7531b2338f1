//! Creates a lock service from a URL. No other part of `lock` knows every back end.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

#[cfg(feature = "etcd")]
use super::etcd::EtcdLock;
use super::operator::Operator;
#[cfg(feature = "redis")]
use super::redlock::node_urls;
use super::redlock::{MemoryNode, Redlock, RedlockBuilder};
use super::service::api::Lock;
use super::settings::{BuildError, Settings, settings_setters};
#[cfg(feature = "zookeeper")]
use super::zookeeper::ZookeeperLock;

/// Connects to the lock service that a URL names, with the default settings.
///
/// | URL | back end | feature |
/// |---|---|---|
/// | `redis://a,b,c` | Redlock over these Redis servers | `redis` |
/// | `postgres://user@host/db` | leases in PostgreSQL | `postgres` |
/// | `mysql://user@host/db`, `mariadb://...` | leases in MySQL or MariaDB | `mysql` |
/// | `sqlite:path` | leases in a SQLite file | `sqlite` |
/// | `etcd://a,b,c`, `etcds://...` | leases in an etcd cluster | `etcd` |
/// | `zookeeper://a:2181,b:2181/chroot` | leases on a ZooKeeper ensemble | `zookeeper` |
/// | `memory:` | five nodes in this process | none |
///
/// You can write several Redis servers into one URL: in `redis://user:password@a:6379,b:6379/1` the user, the password
/// and the database number hold for both. Or give each server its own URL, and a name if you like:
/// `a=redis://10.0.0.5:6379,b=rediss://10.0.0.6:6380`. Redis servers are not asked before the first acquisition. In a
/// database this call creates missing tables.
///
/// # Errors
/// [`ConnectError`]. If the database can't be reached now, the error carries the lock service: see
/// [`ConnectError::NotReady`].
///
/// # Cancel safety
/// If you drop the future, it may have created the tables of the database, or not.
pub async fn connect(url: &str) -> Result<Arc<dyn Lock>, ConnectError> {
    ConnectOptions::new(url).connect().await
}

/// Options beside the URL: see [`connect`].
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct ConnectOptions {
    // The URL may have a password.
    #[debug("{:?}", scheme(url))]
    url: String,
    settings: Settings,
}

impl ConnectOptions {
    /// Takes a URL as [`connect`] does.
    pub fn new(url: impl Into<String>) -> ConnectOptions {
        // Each back end has its own default of the budget.
        let settings = Settings::new("budget", (Duration::ZERO, 1));
        ConnectOptions { url: url.into(), settings }
    }

    settings_setters!(namespace, budget);

    /// Connects.
    ///
    /// # Errors
    /// As for [`connect`].
    ///
    /// # Cancel safety
    /// As for [`connect`].
    pub async fn connect(self) -> Result<Arc<dyn Lock>, ConnectError> {
        (self.back_end()?.open)(&self).await.map_err(|error| self.of_url(error))
    }

    /// Opens the operator functions of the service: for leases in a database, etcd or ZooKeeper. It is not asked before
    /// the first call, and nothing is created.
    ///
    /// # Errors
    /// [`ConnectError`]: for Redis and memory as well, which have the functions in [`redlock`](crate::lock::redlock).
    pub fn operator(&self) -> Result<Arc<dyn Operator>, ConnectError> {
        (self.back_end()?.operator)(self).map_err(|error| self.of_url(error))
    }

    /// Returns the name of the back end, by the scheme of the URL: `memory`, `redis`, `postgres`, `mysql`, `sqlite`,
    /// `etcd` or `zookeeper`. It needs no runtime.
    ///
    /// # Errors
    /// [`ConnectError::Scheme`].
    pub fn engine(&self) -> Result<&'static str, ConnectError> {
        let scheme = scheme(&self.url).ok_or(ConnectError::Scheme(None))?;
        let found = FEATURES.iter().find(|(_, schemes)| schemes.contains(&scheme));
        found.map(|(feature, _)| *feature).ok_or_else(|| ConnectError::Scheme(Some(scheme.to_owned())))
    }

    fn back_end(&self) -> Result<&'static BackEnd, ConnectError> {
        // The pools of databases need it.
        if Handle::try_current().is_err() {
            return Err(ConnectError::NoRuntime);
        }
        let feature = self.engine()?;
        let scheme = || scheme(&self.url).unwrap_or_default().to_owned();
        let found = BACK_ENDS.iter().find(|it| it.feature == feature);
        found.ok_or_else(|| ConnectError::Feature { scheme: scheme(), feature })
    }

    /// Returns the error of a builder whose URL does not fit as that of the URL.
    fn of_url(&self, error: ConnectError) -> ConnectError {
        match error {
            ConnectError::Build(error) if error.setting() == "url" => self.unusable(error.problem()),
            error => error,
        }
    }

    /// Returns the error for a URL that does not fit its scheme.
    fn unusable(&self, problem: impl Into<String>) -> ConnectError {
        let scheme = scheme(&self.url).unwrap_or_default().to_owned();
        ConnectError::Url { scheme, problem: problem.into() }
    }
}

/// An error of [`connect`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL has no scheme, or one that no back end has.
    #[error(
        "the URL of a lock service must begin with redis://, postgres://, mysql://, sqlite:, \
         etcd://, zookeeper:// or memory:, and {}", .0.as_ref().map_or_else(|| "this one has no scheme".to_owned(), |scheme| format!("not with {scheme:?}"))
    )]
    Scheme(Option<String>),
    /// The call came from outside of a tokio runtime.
    #[error("no tokio runtime: connect to a lock service from within one")]
    NoRuntime,
    /// The back end is not compiled in.
    #[error("{scheme}: enable the feature `{feature}` of the crate `fencing`")]
    #[non_exhaustive]
    Feature {
        /// The scheme of the URL.
        scheme: String,
        /// The feature to enable.
        feature: &'static str,
    },
    /// The rest of the URL does not fit its scheme.
    #[error("the {scheme} URL is not usable: {problem}")]
    #[non_exhaustive]
    Url {
        /// The scheme of the URL.
        scheme: String,
        /// The fault.
        problem: String,
    },
    /// A setting does not fit.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The database can't be reached, its tables can't be created, or the fence does not hold there. If the database
    /// may come up later, you can use `lock` nevertheless: each acquisition asks the database again.
    #[error("the database is not ready: {source}")]
    #[non_exhaustive]
    NotReady {
        /// The lock service.
        lock: Arc<dyn Lock>,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

type Connecting<'a> = BoxFuture<'a, Result<Arc<dyn Lock>, ConnectError>>;

struct BackEnd {
    feature: &'static str,
    open: fn(&ConnectOptions) -> Connecting<'_>,
    operator: fn(&ConnectOptions) -> Result<Arc<dyn Operator>, ConnectError>,
}

/// Every back end by its feature, and the schemes of its URLs.
const FEATURES: &[(&str, &[&str])] = &[
    ("memory", &["memory"]),
    ("redis", &["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "valkey+unix"]),
    ("postgres", &["postgres", "postgresql"]),
    ("mysql", &["mysql", "mariadb"]),
    ("sqlite", &["sqlite"]),
    ("etcd", &["etcd", "etcds"]),
    ("zookeeper", &["zookeeper"]),
];

/// The back ends that are compiled in. Add the next one here.
const BACK_ENDS: &[BackEnd] = &[
    BackEnd { feature: "memory", open: memory, operator: of_nodes },
    #[cfg(feature = "redis")]
    BackEnd {
        feature: "redis",
        open: |it| redlock(it, Redlock::builder().redis(node_urls(&it.url))),
        operator: of_nodes,
    },
    #[cfg(feature = "postgres")]
    BackEnd { feature: "postgres", open: sql::open::<sqlx::Postgres>, operator: sql::operator::<sqlx::Postgres> },
    #[cfg(feature = "mysql")]
    BackEnd { feature: "mysql", open: sql::open::<sqlx::MySql>, operator: sql::operator::<sqlx::MySql> },
    #[cfg(feature = "sqlite")]
    BackEnd { feature: "sqlite", open: sqlite::open, operator: sql::operator::<sqlx::Sqlite> },
    #[cfg(feature = "etcd")]
    BackEnd {
        feature: "etcd",
        open: |it| opened(EtcdLock::builder(&it.url).with(&it.settings).build()),
        operator: |it| Ok(Arc::new(EtcdLock::builder(&it.url).with(&it.settings).engine()?)),
    },
    #[cfg(feature = "zookeeper")]
    BackEnd {
        feature: "zookeeper",
        open: |it| opened(ZookeeperLock::builder(&it.url).with(&it.settings).build()),
        operator: |it| Ok(Arc::new(ZookeeperLock::builder(&it.url).with(&it.settings).engine()?)),
    },
];

fn of_nodes(options: &ConnectOptions) -> Result<Arc<dyn Operator>, ConnectError> {
    Err(options.unusable("leases on nodes and in memory have no operator: see fencing::lock::redlock"))
}

/// The number of nodes of a lock service in memory.
const MEMORY_NODES: usize = 5;

fn memory(options: &ConnectOptions) -> Connecting<'_> {
    let nodes = (1..=MEMORY_NODES).map(|number| MemoryNode::new(format!("memory-{number}")));
    redlock(options, Redlock::builder().nodes(nodes))
}

fn redlock(options: &ConnectOptions, mut builder: RedlockBuilder) -> Connecting<'_> {
    builder.settings = Settings { defaults: builder.settings.defaults, ..options.settings.clone() };
    opened(builder.build())
}

/// Opens a lock service that needs nothing before the first acquisition.
fn opened<'a>(built: Result<impl Lock + 'static, BuildError>) -> Connecting<'a> {
    let lock = built.map(|lock| Arc::new(lock) as Arc<dyn Lock>);
    Box::pin(std::future::ready(lock.map_err(ConnectError::from)))
}

/// Returns the scheme of the first URL, which may have a name in front (`a=redis://...`). Nothing
/// else: what is not a URL may be a password.
fn scheme(url: &str) -> Option<&str> {
    let before = url.split_once("://").or_else(|| url.split_once(':'))?.0;
    let scheme = before.rsplit('=').next()?.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '-';
    (!scheme.is_empty() && scheme.chars().all(fits)).then_some(scheme)
}
