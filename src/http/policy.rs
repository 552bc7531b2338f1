use std::fmt;
use std::sync::Arc;

use http::Method;
use http::request::Parts;

/// What a [`FenceLayer`](super::FenceLayer) asks of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The request needs a token, and the fence checks it.
    Required,
    /// The fence checks the token if there is one. Without one the request passes, and the handler gets no
    /// [`Fenced`](super::Fenced).
    Optional,
    /// The request passes, and the fence does not look at its token. The handler gets no
    /// [`Fenced`](super::Fenced).
    Ignored,
}

/// Which requests need a token. The fence checks every token that is sent, needed or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Require {
    /// All requests but reads, which have safe methods as IANA registers them: GET, HEAD, OPTIONS,
    /// TRACE, and PROPFIND, QUERY, REPORT and SEARCH.
    #[default]
    UnsafeMethods,
    /// All requests.
    Always,
}

/// How a layer finds the policy of a request.
#[derive(Clone)]
pub(super) enum Rule {
    Methods { require: Require, ignores_reads: bool },
    Own(Arc<dyn Fn(&Parts) -> Policy + Send + Sync>),
}

impl Rule {
    pub(super) fn of(&self, parts: &Parts) -> Policy {
        match self {
            Rule::Own(policy) => policy(parts),
            Rule::Methods { ignores_reads: true, .. } if is_read(&parts.method) => Policy::Ignored,
            Rule::Methods { require: Require::UnsafeMethods, .. } if is_read(&parts.method) => {
                Policy::Optional
            }
            Rule::Methods { .. } => Policy::Required,
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Methods { require, ignores_reads } => f
                .debug_struct("Methods")
                .field("require", require)
                .field("ignores_reads", ignores_reads)
                .finish(),
            Rule::Own(_) => f.write_str("Own"),
        }
    }
}

fn is_read(method: &Method) -> bool {
    method.is_safe() || matches!(method.as_str(), "PROPFIND" | "QUERY" | "REPORT" | "SEARCH")
}
