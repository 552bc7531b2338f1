use fencing_protocol::{Resource, Token};

use super::{Fence, FenceError};

impl Fence {
    /// Reads the mark of `resource`, if it has one. For operators: see
    /// [`Marks::highest`](super::Marks::highest).
    ///
    /// # Errors
    /// Returns [`FenceError::Unreachable`] if the mark cannot be read.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn highest(&self, resource: &Resource) -> Result<Option<Token>, FenceError> {
        Ok(self.marks.highest(resource).await?)
    }

    /// Lists the marks. For operators: see [`Marks::list`](super::Marks::list).
    ///
    /// # Errors
    /// Returns [`FenceError::Unreachable`] if they cannot be read, or do not list themselves.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn marks(
        &self,
        after: Option<&Resource>,
        limit: usize,
    ) -> Result<Vec<(Resource, Token)>, FenceError> {
        Ok(self.marks.list(after, limit).await?)
    }
}
