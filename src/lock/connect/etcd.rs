use std::sync::Arc;

use super::{ConnectError, ConnectOptions, Connected};
use crate::lock::etcd::{EtcdLock, EtcdLockBuilder};
use crate::lock::operator::Operator;
use crate::lock::settings::BuildError;

pub(super) fn open(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let lock = builder(options).build().map_err(|error| options.of_url(error))?;
    // It needs nothing before the first acquisition.
    let ready = Box::pin(std::future::ready(Ok(())));
    Ok(Connected { lock: Arc::new(lock), ready })
}

pub(super) fn operator(options: &ConnectOptions) -> Result<Arc<dyn Operator>, ConnectError> {
    let operator = builder(options).operator().map_err(|error| options.of_url(error))?;
    Ok(Arc::new(operator))
}

fn builder(options: &ConnectOptions) -> EtcdLockBuilder {
    let mut builder = EtcdLock::builder(&options.url);
    builder.settings = options.settings.with_defaults_of(&builder.settings);
    match &options.namespace {
        Some(namespace) => builder.namespace(namespace),
        None => builder,
    }
}

impl ConnectOptions {
    fn of_url(&self, error: BuildError) -> ConnectError {
        match error.setting() {
            "url" => self.unusable(error.problem()),
            _ => ConnectError::Build(error),
        }
    }
}
