//! Redis nodes: the scripts, and one explicit connection per node.

mod fault;
mod inspect;
mod keys;
mod listener;
mod locks;
mod node;
mod node_urls;
mod reply;
mod scripts;
mod source;
mod stream;
mod url;
mod wire;

use std::sync::Arc;

use super::{Node, RedlockBuilder};

pub use inspect::NodeReport;
pub use locks::{Forced, NodeLock, NodeView};
pub use node::RedisNode;
pub use node_urls::node_urls;

impl RedlockBuilder {
    /// Adds one Redis node per URL, besides those added before: `redis://`, `rediss://`
    /// or `unix://`. Each is an independent master without failover.
    pub fn redis<U: AsRef<str>>(mut self, urls: impl IntoIterator<Item = U>) -> RedlockBuilder {
        for url in urls {
            let url = url.as_ref().to_owned();
            self.sources.push(Arc::new(move |namespace| {
                let node = RedisNode::new(&url, namespace)?;
                Ok(Arc::new(node) as Arc<dyn Node>)
            }));
        }
        self
    }
}
