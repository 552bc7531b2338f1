use std::sync::Arc;

use crate::lock::service::api::Lock;
use crate::lock::settings::BuildError;

/// Every feature, and the schemes that need it.
const FEATURES: &[(&str, &[&str])] = &[
    ("redis", &["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "valkey+unix"]),
    ("postgres", &["postgres", "postgresql"]),
    ("mysql", &["mysql", "mariadb"]),
    ("sqlite", &["sqlite"]),
];

/// Why a URL gave no lock service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL has no scheme, or one that no back end has.
    #[error(
        "the URL of a lock service begins with redis://, postgres://, mysql://, sqlite: or \
         memory:, and {}", .0.as_ref().map_or_else(|| "this one has no scheme".to_owned(), |scheme| format!("not with {scheme:?}"))
    )]
    Scheme(Option<String>),
    /// The call came from outside of a tokio runtime.
    #[error("no tokio runtime: connect to a lock service from within one")]
    NoRuntime,
    /// The back end is not compiled in.
    #[error("{scheme}: switch on the feature `{feature}` of the crate `fencing`")]
    #[non_exhaustive]
    Feature {
        /// The scheme of the URL.
        scheme: String,
        /// What to switch on.
        feature: &'static str,
    },
    /// The rest of the URL does not fit its scheme.
    #[error("the {scheme} URL is not usable: {problem}")]
    #[non_exhaustive]
    Url {
        /// The scheme of the URL.
        scheme: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A setting does not fit.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The database can't be reached, or its tables can't be created. If the database may come up
    /// later, you can use `lock` nevertheless: each acquisition asks the database again.
    #[error("the database is not ready: {source}")]
    #[non_exhaustive]
    NotReady {
        /// The lock service.
        lock: Arc<dyn Lock>,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ConnectError {
    /// Returns the error of a scheme that no back end in this build has.
    pub(super) fn unknown(scheme: &str) -> ConnectError {
        match FEATURES.iter().find(|(_, schemes)| schemes.contains(&scheme)) {
            Some((feature, _)) => ConnectError::Feature { scheme: scheme.to_owned(), feature },
            None => ConnectError::Scheme(Some(scheme.to_owned())),
        }
    }
}
