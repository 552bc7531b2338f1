//! The lock service options.

use std::env;
use std::sync::Arc;

use fencing::lock::Operator;
use fencing::lock::redlock::{BuildError, Fleet, Node, RedisNode};

use crate::exit::Failure;
use crate::pool::{connect, on};

pub(crate) const NAMESPACE: &str = "fencing";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Redis {
    /// The nodes: independent masters.
    #[arg(long = "redis", value_name = "URL,URL,...")]
    #[arg(env = "FENCING_REDIS", hide_env_values = true)]
    pub(crate) urls: String,
    /// Prefix of the keys on the nodes.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    pub(crate) namespace: String,
}

impl Redis {
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        self.urls.split(',').map(str::trim).filter(|url| !url.is_empty())
    }

    pub(crate) fn nodes(&self) -> Result<Vec<RedisNode>, BuildError> {
        self.urls().map(|url| RedisNode::new(url, &self.namespace)).collect()
    }

    pub(crate) fn fleet(&self) -> Result<Fleet, BuildError> {
        let fleet = Fleet::new(self.nodes()?.iter().map(Node::member));
        fleet.map_err(|error| BuildError::new("redis", error.to_string()))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct LockPlace {
    /// The nodes: independent masters [env: FENCING_REDIS].
    #[arg(long, value_name = "URL,URL,...", conflicts_with = "database")]
    redis: Option<String>,
    /// A database instead of nodes: sqlite:PATH, postgres://... or mysql://... Tables that are
    /// missing are created [env: FENCING_DATABASE].
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Prefix of the keys on the nodes [default: fencing]. A database has no namespaces.
    #[arg(long, value_name = "NS")]
    namespace: Option<String>,
}

pub(crate) enum Chosen {
    Redis(Redis),
    Database(String),
}

impl Chosen {
    /// Returns the operator functions of the service. Nodes are asked one by one: see `voters`.
    pub(crate) async fn operator(&self) -> Result<Arc<dyn Operator>, Failure> {
        match self {
            Chosen::Database(url) => {
                let pool = connect("--database", url, false, 1).await?;
                Ok(on!(pool, pool => Arc::new(pool)))
            }
            Chosen::Redis(_) => Err(Failure::usage("nodes are asked one by one")),
        }
    }
}

impl LockPlace {
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE)
    }

    /// Returns what the command line says, or else the environment. A namespace beside a database is wrong, unless
    /// something else is in it.
    pub(crate) fn chosen(&self, needs_namespace: bool) -> Result<Chosen, Failure> {
        let set = |name| env::var(name).ok();
        let (redis, database) = match (&self.redis, &self.database) {
            (None, None) => (set("FENCING_REDIS"), set("FENCING_DATABASE")),
            (redis, database) => (redis.clone(), database.clone()),
        };
        let given = |place: &String| !place.trim_matches([',', ' ']).is_empty();
        match (redis.filter(given), database.filter(given)) {
            (Some(urls), None) => {
                Ok(Chosen::Redis(Redis { urls, namespace: self.namespace().to_owned() }))
            }
            (None, Some(_)) if self.namespace.is_some() && !needs_namespace => Err(Failure::usage(
                "--namespace is for nodes: in a database, the schema of its URL keeps locks apart",
            )),
            (None, Some(url)) => Ok(Chosen::Database(url.trim().to_owned())),
            (None, None) => Err(Failure::usage(
                "no nodes and no database are given: give --redis or --database, or set \
                 FENCING_REDIS or FENCING_DATABASE",
            )),
            (Some(_), Some(_)) => Err(Failure::usage(
                "both FENCING_REDIS and FENCING_DATABASE are set: unset one of them, or give \
                 --redis or --database",
            )),
        }
    }
}
