use fencing_protocol::{Resource, Token};
use tokio::time::{Instant, timeout_at};

use super::steps::check_runtime;
use super::{Fence, FenceError, LONGEST_LIMIT};

impl Fence {
    /// Returns what the fence would say to a request with `token` now, and raises the mark. It waits for
    /// no request, and no request waits for it.
    pub(crate) async fn observe(
        &self,
        resource: &Resource,
        token: Token,
    ) -> Result<(), FenceError> {
        check_runtime()?;
        let end = Instant::now() + self.limit.min(LONGEST_LIMIT);
        let question = self.check(resource, token, end).await?;
        match timeout_at(end, self.marks.raise(resource, token)).await {
            Ok(raised) => Ok(raised?),
            Err(_) => Err(FenceError::Unreachable(self.too_late(question.is_some()))),
        }
    }
}
