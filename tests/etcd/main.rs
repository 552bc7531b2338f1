//! The lease in an etcd cluster, on real members.

mod doubt;
mod lease;
mod members;
mod operator;
mod proxy;
mod session;
mod waiting;

use std::time::Duration;

use fencing::Token;
use fencing::lock::etcd::{EtcdLock, EtcdLockBuilder};
use fencing::lock::{AcquireError, ConnectOptions, Fault, Lock, Loss, NodeCause, connect};
use futures_util::future::{join, join_all};
use support::etcd::EtcdCluster;
use support::lease::{assert_held, fault, holder, named, release, resource};
use support::waiting::{in_time, polled, until};
use tokio::time::{Instant, sleep, timeout};

use doubt::is_there;
use proxy::{Mode, Proxy};

/// A client of the only member, also by way of a proxy, which it asks first.
async fn beside(cluster: &EtcdCluster) -> (Proxy, EtcdLockBuilder) {
    let proxy = Proxy::before(cluster.host(0)).await;
    let url = format!("etcd://{},{}", proxy.host, cluster.host(0));
    (proxy, EtcdLock::builder(url))
}

/// A machine that is busy with other tests must not look like a cluster that is down.
fn lock(cluster: &EtcdCluster) -> EtcdLockBuilder {
    EtcdLock::builder(cluster.url()).ttl(Duration::from_secs(18)).budget(Duration::from_secs(6)).holder("billing-7")
}
