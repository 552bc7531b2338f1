//! Where the locks are.

use std::env;

use crate::exit::Failure;

/// The nodes of one fleet, and the namespace of the keys there.
#[derive(Debug, clap::Args)]
pub(crate) struct Redis {
    /// The nodes: independent masters. Other users can see a command line, so put URLs with
    /// passwords in the environment.
    #[arg(
        long = "redis",
        value_name = "URL,URL,...",
        env = "FENCING_REDIS",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    urls: Vec<String>,
    /// What the keys on the nodes begin with.
    #[arg(long, value_name = "NS", default_value = "fencing")]
    pub(crate) namespace: String,
}

impl Redis {
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        trimmed(&self.urls)
    }
}

/// The URLs, without what is left of a comma too many.
pub(super) fn trimmed(urls: &[String]) -> impl Iterator<Item = &str> {
    urls.iter().map(|url| url.trim()).filter(|url| !url.is_empty())
}

/// Where the locks are: on Redis nodes or in one database.
#[derive(Debug, clap::Args)]
pub(crate) struct LockPlace {
    /// The nodes: independent masters. Other users can see a command line, so put URLs with
    /// passwords in the environment [env: FENCING_REDIS].
    #[arg(long, value_name = "URL,URL,...", value_delimiter = ',', conflicts_with = "database")]
    redis: Vec<String>,
    /// A database instead of nodes: sqlite:PATH, postgres://... or mysql://... Tables that are
    /// missing are created [env: FENCING_DATABASE].
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// What the keys on the nodes begin with [default: fencing]. A database has no namespaces.
    #[arg(long, value_name = "NS")]
    namespace: Option<String>,
}

/// The place that was chosen.
pub(crate) enum Chosen {
    Redis(Vec<String>),
    Database(String),
}

impl LockPlace {
    /// Returns what the keys on the nodes begin with.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("fencing")
    }

    /// Returns what the command line says, or else the environment.
    pub(crate) fn chosen(&self) -> Result<Chosen, Failure> {
        let chosen = self.named()?;
        if self.namespace.is_some() && matches!(chosen, Chosen::Database(_)) {
            let why = "in a database, the schema of its URL keeps locks apart";
            return Err(Failure::usage(format_args!("--namespace is for nodes: {why}")));
        }
        Ok(chosen)
    }

    /// Returns the chosen servers, and ignores a namespace beside a database.
    pub(crate) fn named(&self) -> Result<Chosen, Failure> {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let given = !self.redis.is_empty() || self.database.is_some();
        let (redis, database) = match given {
            true => (self.redis.clone(), self.database.clone()),
            false => {
                let urls = set("FENCING_REDIS").unwrap_or_default();
                let urls = urls.split(',').filter(|url| !url.is_empty()).map(str::to_owned);
                (urls.collect(), set("FENCING_DATABASE"))
            }
        };
        match (database, redis.is_empty()) {
            (None, false) => Ok(Chosen::Redis(trimmed(&redis).map(str::to_owned).collect())),
            (Some(url), true) => Ok(Chosen::Database(url.trim().to_owned())),
            (None, true) => Err(Failure::usage(
                "no nodes and no database are given: give --redis or --database, or set \
                 FENCING_REDIS or FENCING_DATABASE",
            )),
            (Some(_), false) => Err(Failure::usage(
                "both FENCING_REDIS and FENCING_DATABASE are set: unset one of them, or give \
                 --redis or --database",
            )),
        }
    }
}
