use std::collections::HashMap;
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
