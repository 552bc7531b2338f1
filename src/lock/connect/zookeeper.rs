use std::sync::Arc;

use super::{ConnectError, ConnectOptions, Connected};
use crate::lock::zookeeper::ZookeeperLock;

pub(super) fn open(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let mut builder = ZookeeperLock::builder(&options.url);
    builder.settings = options.settings.with_defaults_of(&builder.settings);
    if let Some(namespace) = &options.namespace {
        builder = builder.namespace(namespace);
    }
    // It needs nothing before the first acquisition.
    let ready = Box::pin(std::future::ready(Ok(())));
    Ok(Connected { lock: Arc::new(builder.build()?), ready })
}
