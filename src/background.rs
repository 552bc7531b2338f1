use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scopeguard::{ScopeGuard, guard};
use tokio::runtime::Handle;

/// Work that was begun. It is an error if it panics.
pub type Unfinished<T> = BoxFuture<'static, Result<T, Box<dyn Any + Send>>>;

/// Awaits `work`. If this is dropped in the middle of it, the runtime continues with the result of `rest`.
pub async fn to_the_end<T, R>(
    work: impl Future<Output = T> + Send + 'static,
    rest: impl FnOnce(Unfinished<T>) -> R,
) -> T
where
    R: Future<Output: Send> + Send + 'static,
{
    // Work that has panicked has ended: it is not polled again.
    let work: Unfinished<T> = AssertUnwindSafe(work).catch_unwind().boxed();
    let mut work = guard(work, |work| {
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(rest(work));
        }
    });
    let outcome = work.as_mut().await;
    drop(ScopeGuard::into_inner(work));
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}
