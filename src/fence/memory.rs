use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use dashmap::{DashMap, Entry};
use fencing_protocol::{Resource, Token};
use futures_util::future::{FutureExt, ready};
use parking_lot::Mutex;

use super::{FenceError, Marks, MarksFuture, Stale};

/// The number of maps that the marks are divided into. A large map takes long to grow.
const SHARDS: usize = 256;

/// High-water marks in the memory of this process.
///
/// A mark takes about 100 bytes plus its resource's name. The marks never forget one to save
/// memory: at the limit they refuse resources that have no mark yet.
///
/// **Fencing.** The marks end with the process: after a restart an older token passes until
/// a newer one has been seen. If that matters, keep the marks beside the data.
#[derive(derive_more::Debug)]
pub struct MemoryMarks {
    #[debug(skip)]
    marks: Arc<DashMap<Resource, Token>>,
    used: AtomicUsize,
    limit: usize,
}

/// The marks of this process, to notice a resource that has two.
static LIVE: Mutex<Vec<Weak<DashMap<Resource, Token>>>> = Mutex::new(Vec::new());

impl MemoryMarks {
    /// Makes marks with room for this many resources.
    pub fn new(limit: usize) -> MemoryMarks {
        let marks = Arc::new(DashMap::with_shard_amount(SHARDS));
        let mut live = LIVE.lock();
        live.retain(|marks| marks.strong_count() > 0);
        live.push(Arc::downgrade(&marks));
        MemoryMarks { marks, used: AtomicUsize::new(0), limit }
    }

    /// Logs an error when another fence of this process keeps a mark of the resource: a fence for each route, say.
    fn warn_of_another(&self, resource: &Resource) {
        let live = LIVE.lock().clone();
        let others = live.iter().filter_map(Weak::upgrade);
        let mut others = others.filter(|marks| !Arc::ptr_eq(marks, &self.marks));
        if others.any(|marks| marks.contains_key(resource)) {
            tracing::error!(
                %resource,
                "two fences of this process mark this resource separately: a token that one refuses may pass the \
                 other. Make one Fence, and clone it for each route"
            );
        }
    }

    /// Lowers a mark that a forged token has poisoned from `from` to `to`, if it is still exactly `from`, and logs a
    /// warning. Give the fence an `Arc` of the marks to call it, and offer the call to operators only. Called twice or
    /// late, it does nothing.
    ///
    /// While a request with a larger token is in flight, the fence still refuses smaller tokens.
    ///
    /// # Errors
    /// Returns [`NotLowered`] if the mark is not `from`, or `to` is above `from`. The mark stays as it is.
    ///
    /// **Fencing.** It is safe only if no token above `to` was issued: read the mark first, then ask the lock service
    /// for the token of the newest lease, and give both. With a smaller `to`, older holders may write again. A request
    /// with the forged token that comes at the same moment may raise the mark again: check it afterwards.
    pub fn lower(&self, resource: &Resource, from: Token, to: Token) -> Result<(), NotLowered> {
        match self.marks.get_mut(resource) {
            Some(mut mark) if *mark == from && to <= from => *mark = to,
            mark => {
                let (resource, mark) = (resource.clone(), mark.map(|mark| *mark));
                return Err(NotLowered { resource, from, to, mark });
            }
        }
        tracing::warn!(%resource, was = %from, now = %to, "high-water mark lowered by an operator");
        Ok(())
    }

    fn compare_and_raise(&self, resource: &Resource, token: Token) -> Result<(), FenceError> {
        match self.marks.entry(resource.clone()) {
            Entry::Occupied(mut highest) => {
                Stale::check(resource, token, Some(*highest.get()))?;
                highest.insert(token);
                return Ok(());
            }
            Entry::Vacant(mark) => {
                let one_more = |used| (used < self.limit).then_some(used + 1);
                let room = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
                room.map_err(|_| FenceError::Full { limit: self.limit })?;
                mark.insert(token);
            }
        }
        self.warn_of_another(resource);
        Ok(())
    }
}

/// A mark was not lowered: it is not what it was expected to be, and stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the mark of {resource} was not lowered from {from} to {to}: it is {}; read it again, and look up \
     the newest lease again", .mark.map_or("not set".into(), |mark| mark.to_string())
)]
#[non_exhaustive]
pub struct NotLowered {
    /// The resource whose mark it is.
    pub resource: Resource,
    /// The expected mark.
    pub from: Token,
    /// The requested mark.
    pub to: Token,
    /// The present mark, if there is one.
    pub mark: Option<Token>,
}

impl Default for MemoryMarks {
    /// Makes marks with room for a million resources.
    fn default() -> MemoryMarks {
        MemoryMarks::new(1_000_000)
    }
}

impl Marks for MemoryMarks {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> MarksFuture<'a, ()> {
        ready(self.compare_and_raise(resource, token)).boxed()
    }

    fn raise_now(&self, resource: &Resource, token: Token) -> Option<Result<(), FenceError>> {
        Some(self.compare_and_raise(resource, token))
    }

    fn highest<'a>(&'a self, resource: &'a Resource) -> MarksFuture<'a, Option<Token>> {
        ready(Ok(self.marks.get(resource).map(|mark| *mark))).boxed()
    }

    /// It reads all marks.
    fn list<'a>(&'a self, after: Option<&'a Resource>, limit: usize) -> MarksFuture<'a, Vec<(Resource, Token)>> {
        let mut first = BTreeMap::new();
        for mark in self.marks.iter().filter(|mark| Some(mark.key()) > after) {
            first.insert(mark.key().clone(), *mark.value());
            if first.len() > limit {
                first.pop_last();
            }
        }
        ready(Ok(first.into_iter().collect())).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As while it grows.
    #[test]
    fn a_map_that_is_busy_holds_up_no_resource_of_another() {
        let marks = MemoryMarks::default();
        let name = |number: u32| Resource::new(format!("files/{number}")).unwrap();
        let _busy = marks.marks.entry(name(0));
        let free = (1..100).filter(|number| marks.marks.try_entry(name(*number)).is_some()).count();
        assert!(free > 50, "{free} of 99 go on");
    }
}
