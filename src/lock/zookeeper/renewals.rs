use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use tokio::sync::mpsc;
use zookeeper_client::Error;

use super::fault;
use super::paths::LockNode;
use super::session::{ZookeeperRenewal, ZookeeperSession};
use crate::lock::error::Loss;
use crate::time::Clock;

/// Renews the leases of a session: those that are due at one time with one write.
///
/// A ping would prove nothing: the connected server answers it, which may be cut off. The write is agreed on by a
/// majority. Behind it, the same server reads the node of each lease: it has what the majority had.
pub(super) async fn renew_all(
    session: Weak<ZookeeperSession>,
    clock: Arc<dyn Clock>,
    mut due: mpsc::UnboundedReceiver<ZookeeperRenewal>,
) {
    // A panic, of the caller's clock perhaps, fails the renewals of one write.
    while AssertUnwindSafe(renew_due(&session, &*clock, &mut due)).catch_unwind().await.is_err() {}
}

async fn renew_due(
    session: &Weak<ZookeeperSession>,
    clock: &dyn Clock,
    due: &mut mpsc::UnboundedReceiver<ZookeeperRenewal>,
) {
    let mut batch = Vec::new();
    while due.recv_many(&mut batch, usize::MAX).await > 0 {
        // Their callers have given up.
        batch.retain(|renewal| !renewal.renewed.is_closed());
        let Some(session) = session.upgrade() else { return };
        if batch.is_empty() {
            continue;
        }
        let start = clock.now();
        let written = session.client.set_data(&session.node, b"", None);
        let ask = |node: &LockNode| session.client.check_stat(&node.path);
        let asked: Vec<Vec<_>> = batch.iter().map(|renewal| renewal.nodes.iter().map(ask).collect()).collect();
        let written = written.await.map(drop);
        match &written {
            Err(Error::NoNode) => session.end(Loss::Superseded),
            Err(error) if fault::is_over(error) => session.end(Loss::Expired),
            _ => {}
        }
        let written = written.map_err(fault::of);
        for (ZookeeperRenewal { nodes, renewed }, stats) in batch.drain(..).zip(asked) {
            let read = async {
                for (node, stat) in nodes.iter().zip(stats) {
                    if stat.await?.is_none_or(|stat| stat.czxid != node.czxid) {
                        return Ok(None);
                    }
                }
                Ok(Some(start))
            };
            let _ = renewed.send(match &written {
                Ok(()) => read.await.map_err(fault::of),
                Err(_) if session.has_ended() => Ok(None),
                Err(fault) => Err(fault.clone()),
            });
        }
    }
}
