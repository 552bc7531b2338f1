use super::{ConnectOptions, Opening, redlock};
use crate::lock::redlock::{Redlock, node_urls};

pub(super) fn open(options: &ConnectOptions) -> Opening<'_> {
    redlock(options, Redlock::builder().redis(node_urls(&options.url)))
}
