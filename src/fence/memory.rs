use std::collections::HashMap;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt, ready};

use super::{Marks, MarksError, Stale};
use crate::resource::Resource;
use crate::token::Token;

/// High-water marks in the memory of this process.
///
/// A mark takes about 100 bytes plus its resource's name. The marks never forget one to save
/// memory: at the limit they refuse resources that have no mark yet.
///
/// **Fencing.** The marks end with the process: after a restart an older token passes until
/// a newer one has been seen. Where that matters, keep the marks beside the data.
#[derive(Debug)]
pub struct MemoryMarks {
    marks: Mutex<HashMap<Resource, Token>>,
    limit: usize,
}

impl MemoryMarks {
    /// Makes marks with room for this many resources.
    #[must_use]
    pub fn new(limit: usize) -> MemoryMarks {
        MemoryMarks { marks: Mutex::default(), limit }
    }

    /// Puts a mark that was poisoned by a forged token back to `to`, and returns what it was; or
    /// `None` if it is not above `to`. It writes a warning to the log, with both tokens. For this,
    /// make the fence of an `Arc` of the marks, and offer the call to operators only:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fencing::fence::{Marks, MemoryMarks};
    /// use fencing::{Fence, Resource, Token};
    ///
    /// # futures_util::FutureExt::now_or_never(async {
    /// let marks = Arc::new(MemoryMarks::default());
    /// let fence = Fence::new(Arc::clone(&marks));
    /// # let file = Resource::new("files/a")?;
    /// # marks.raise(&file, Token::MAX).await?;
    /// // 34 is the token of the newest lease of `file`, as the lock service has it.
    /// assert_eq!(marks.lower(&file, Token::new(34)?), Some(Token::MAX));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap().unwrap();
    /// ```
    ///
    /// Requests in flight with a larger token count until they have ended: the fence goes on refusing
    /// smaller ones until then.
    ///
    /// **Fencing.** It is the one way to lower a mark, and it is safe only if no token above `to` was
    /// issued: give the token of the newest lease. With a smaller one, older holders may write again.
    pub fn lower(&self, resource: &Resource, to: Token) -> Option<Token> {
        let was = {
            let mut marks = self.marks();
            let mark = marks.get_mut(resource).filter(|mark| **mark > to)?;
            replace(mark, to)
        };
        tracing::warn!(%resource, %was, now = %to, "high-water mark lowered by an operator");
        Some(was)
    }

    fn marks(&self) -> MutexGuard<'_, HashMap<Resource, Token>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compare_and_raise(&self, resource: &Resource, token: Token) -> Result<(), MarksError> {
        let mut marks = self.marks();
        if let Some(highest) = marks.get_mut(resource) {
            Stale::check(resource, token, Some(*highest))?;
            *highest = token;
            return Ok(());
        }
        if marks.len() >= self.limit {
            return Err(MarksError::Full { limit: self.limit });
        }
        marks.insert(resource.clone(), token);
        Ok(())
    }
}

impl Default for MemoryMarks {
    /// Makes marks with room for a million resources.
    fn default() -> MemoryMarks {
        MemoryMarks::new(1_000_000)
    }
}

impl Marks for MemoryMarks {
    fn raise<'a>(
        &'a self,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), MarksError>> {
        ready(self.compare_and_raise(resource, token)).boxed()
    }

    fn highest<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, MarksError>> {
        ready(Ok(self.marks().get(resource).copied())).boxed()
    }
}
