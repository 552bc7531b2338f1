use std::sync::Arc;

use super::{ConnectError, ConnectOptions, Connecting, opened};
use crate::lock::operator::Operator;
use crate::lock::zookeeper::{ZookeeperLock, ZookeeperLockBuilder};

pub(super) fn open(options: &ConnectOptions) -> Connecting<'_> {
    opened(builder(options).build())
}

pub(super) fn operator(options: &ConnectOptions) -> Result<Arc<dyn Operator>, ConnectError> {
    Ok(Arc::new(builder(options).operator()?))
}

fn builder(options: &ConnectOptions) -> ZookeeperLockBuilder {
    ZookeeperLock::builder(&options.url).with(&options.settings, options.namespace.as_ref())
}
