use super::{ConnectOptions, Connecting, redlock};
use crate::lock::redlock::{Redlock, node_urls};

pub(super) fn open(options: &ConnectOptions) -> Connecting<'_> {
    redlock(options, Redlock::builder().redis(node_urls(&options.url)))
}
