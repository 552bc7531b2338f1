use std::sync::Arc;
use std::time::Duration;

use fencing::Redlock;
use fencing::lock::Lock;
use fencing::lock::redlock::{BuildError, MemoryNode, RedlockBuilder};

/// How long a lease lasts if its client does not say.
pub const TTL: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub enum Nodes {
    /// In this process
    Here(Vec<MemoryNode>),
    /// Their URLs
    Redis(Vec<String>),
}

impl Nodes {
    /// Returns the nodes of these URLs; without any, five in this process.
    pub fn new<'a>(urls: impl Iterator<Item = &'a str>) -> Nodes {
        let urls: Vec<String> = urls.map(str::to_owned).collect();
        if urls.is_empty() {
            return Nodes::Here((1..=5).map(|number| MemoryNode::new(format!("node {number}"))).collect());
        }
        Nodes::Redis(urls)
    }

    /// Returns a lock service on these nodes with settings of its own.
    pub fn lock(&self, set: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> Result<Arc<dyn Lock>, BuildError> {
        let builder = match self {
            Nodes::Here(nodes) => Redlock::builder().nodes(nodes.iter().cloned()),
            Nodes::Redis(urls) => Redlock::builder().redis(urls),
        };
        Ok(Arc::new(set(builder).build()?))
    }

    /// Returns the lock service that leases are given from. A client that sleeps shall lose its
    /// lease: nobody renews for it.
    pub fn for_leases(&self) -> Result<Arc<dyn Lock>, BuildError> {
        self.lock(|builder| builder.renew(false).ttl(TTL))
    }
}
