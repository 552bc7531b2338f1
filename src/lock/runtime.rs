use std::panic::AssertUnwindSafe;
use std::time::Duration;

use fencing_protocol::Fault;
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::lock::error::NodeCause;
use crate::time::{Clock, Time};

/// The interval of clock reads. While the machine is suspended, the runtime's timers stand still; the clock does not.
const SLICE: Duration = Duration::from_millis(250);
/// Time limit for a lease's own runtime to begin the work of a caller outside of any runtime.
const RUNTIME_LIMIT: Duration = Duration::from_secs(5);
/// The pause before work begins again after a panic.
pub(super) const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// Waits until `clock` shows `until`, on any executor. You may drop it at any point.
pub(super) async fn sleep_until(clock: &dyn Clock, until: Time) {
    loop {
        let left = until.since(clock.now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(SLICE)).await;
    }
}

/// Runs `work` here if a runtime polls this, else as a task of `runtime`, if that runs. Dropped, it drops `work`.
pub(super) async fn in_runtime<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, NodeCause> {
    if Handle::try_current().is_ok() {
        return Ok(work.await);
    }
    let (begin, begun) = oneshot::channel();
    let task = AbortOnDropHandle::new(runtime.spawn(async move {
        let _: Result<(), ()> = begin.send(());
        work.await
    }));
    let is_served = tokio::select! {
        begun = begun => begun.is_ok(),
        () = sleep(RUNTIME_LIMIT) => false,
    };
    let done = if is_served { task.await.ok() } else { None };
    let cause = Fault::Disconnected("the runtime is gone".into());
    done.ok_or_else(|| NodeCause::own(cause))
}

/// Returns what a task answers before `end`. Fails if it does not, or its runtime has ended.
#[allow(dead_code, reason = "unused with Redis alone")]
pub(super) async fn answered<T, F: From<Fault>, E>(
    end: Instant,
    answer: impl Future<Output = Result<Result<T, F>, E>>,
) -> Result<T, F> {
    match timeout_at(end, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Fault::Disconnected("the runtime is gone".into()).into()),
        Err(_) => Err(Fault::TimedOut.into()),
    }
}

/// Runs `work` to its end, and again after a panic: that of a caller's clock, perhaps.
#[allow(dead_code, reason = "unused without etcd and ZooKeeper")]
pub(super) async fn restarted<F: Future<Output = ()>>(work: impl Fn() -> F) {
    while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
        sleep(RESTART_PAUSE).await;
    }
}

/// Sleeps on any executor.
pub(super) async fn sleep(time: Duration) {
    if Handle::try_current().is_ok() {
        return tokio::time::sleep(time).await;
    }
    // Without a runtime there are no timers.
    let (sender, over) = oneshot::channel();
    std::thread::spawn(move || {
        std::thread::sleep(time);
        let _: Result<(), ()> = sender.send(());
    });
    let _ = over.await;
}
