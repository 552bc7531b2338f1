use super::{ConnectError, ConnectOptions, Opened};
use crate::lock::redlock::{MemoryNode, Redlock};

/// How many nodes there are.
const NODES: usize = 5;

pub(super) fn open(options: &ConnectOptions) -> Result<Opened, ConnectError> {
    let nodes = (1..=NODES).map(|number| MemoryNode::new(format!("memory-{number}")));
    let builder = Redlock::builder().nodes(nodes).ttl(options.ttl).wait(options.wait);
    let builder = builder.lock_at_least_for(options.at_least).renew(options.renew);
    let builder = match &options.holder {
        Some(name) => builder.holder(name),
        None => builder,
    };
    let builder = match options.budget {
        Some(budget) => builder.node_budget(budget),
        None => builder,
    };
    Ok(Opened::ready(builder.build()?))
}
