use std::env;
use std::sync::Arc;

use fencing::Redlock;
use fencing::lock::redlock::{BuildError, Fleet, Node, RedisNode, RedlockBuilder, node_urls};
use fencing::lock::{ConnectOptions, Operator};

use crate::exit::Failure;
use crate::pool::{connect, kind, on};

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
pub(crate) struct LockPlace {
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
pub(crate) enum Chosen {
    Redis(Redis),
    Database(String),
    /// etcd, ZooKeeper, or this process.
    Engine {
        url: String,
        namespace: String,
    },
}

impl Chosen {
    pub(crate) fn options(&self) -> ConnectOptions {
        match self {
            Chosen::Database(url) => ConnectOptions::new(url),
            Chosen::Redis(Redis { urls: url, namespace }) | Chosen::Engine { url, namespace } => {
                ConnectOptions::new(url).namespace(namespace)
            }
        }
    }

    /// Opens the leases of one service. Nodes have none: see [`Voters`](crate::findings::Voters).
    pub(crate) async fn operator(&self) -> Result<Arc<dyn Operator>, Failure> {
        let Chosen::Database(url) = self else { return self.options().operator().map_err(Failure::usage) };
        let pool = connect("the lock service", url, false, 1).await?;
        Ok(on!(pool, pool => Arc::new(pool)))
    }
}

const VARIABLES: [&str; 3] = ["FENCING_LOCK", "FENCING_REDIS", "FENCING_DATABASE"];
const OPTIONS: &str = "--lock, --redis or --database";

pub(crate) const NOT_FOR_LOCK: &str =
    "FENCING_LOCK is for run, serve, leases, release, watch, doctor and raise: this command has its own options";

impl LockPlace {
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE)
    }

    /// Reads the command line, or else the environment. A namespace beside a database is wrong, unless marks need it.
    pub(crate) fn chosen(&self, needs_namespace: bool) -> Result<Chosen, Failure> {
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
                Ok(Chosen::Redis(redis))
            }
            "database" | "postgres" | "mysql" | "sqlite" => {
                let why = "--namespace is for nodes, etcd and ZooKeeper: in a database, the schema keeps locks apart";
                Failure::unless(self.namespace.is_none() || needs_namespace, why)?;
                Ok(Chosen::Database(url))
            }
            _ => Ok(Chosen::Engine { url, namespace }),
        }
    }
}
