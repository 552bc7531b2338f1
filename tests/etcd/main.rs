//! The lease in an etcd cluster, on real members.

mod doubt;
mod lease;
mod members;
mod operator;
mod proxy;
mod session;
mod waiting;

use std::time::Duration;

use fencing::lock::etcd::{EtcdLock, EtcdLockBuilder};
use support::etcd::EtcdCluster;

/// A machine that is busy with other tests must not look like a cluster that is down.
fn lock(cluster: &EtcdCluster) -> EtcdLockBuilder {
    EtcdLock::builder(cluster.url()).ttl(Duration::from_secs(18)).budget(Duration::from_secs(6)).holder("billing-7")
}
