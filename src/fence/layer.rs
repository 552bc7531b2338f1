//! The part of a fence that only the HTTP layer uses.

use fencing_protocol::{Resource, Token};
use tokio::time::Instant;

use super::admit::check_runtime;
use super::{Admission, Fence, FenceError, Stale};

impl Fence {
    /// Returns the fence's answer to a request with `token`, and raises the mark. No request waits for another.
    pub(crate) async fn observe(&self, resource: &Resource, token: Token) -> Result<(), FenceError> {
        check_runtime()?;
        let end = Instant::now() + self.limit;
        let question = self.check(resource, token, end).await?;
        self.in_time(end, &question, self.marks.raise(resource, token)).await
    }
}

impl Admission {
    /// Waits until a newer token has passed the marks, whether it waits for this request or not.
    pub(crate) fn overtaken(&self) -> impl Future<Output = Stale> + Send + 'static {
        self.request.newer(|tokens| tokens.highest)
    }
}
