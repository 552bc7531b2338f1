use std::time::Duration;

use fencing::fence::{FenceError, MemoryMarks};
use fencing::{Fence, Resource, Token};
use tokio::time::sleep;

use crate::simulation::trace::Trace;
use support::history::{Answer, Stored};

/// What the writes go to: behind the fence, or not.
#[derive(Clone)]
pub struct Storage {
    fence: Option<Fence>,
    trace: Trace,
}

impl Storage {
    pub fn new(guarded: bool, trace: Trace) -> Storage {
        let fence = || Fence::new(MemoryMarks::default()).limit(Duration::from_secs(2));
        Storage { fence: guarded.then(fence), trace }
    }

    /// Takes so long to write what it has admitted.
    pub async fn write(&self, resource: &Resource, token: Token, value: String, takes: Duration) -> Answer {
        let admission = match &self.fence {
            None => None,
            Some(fence) => match fence.admit(resource, token).await {
                Ok(admission) => Some(admission),
                Err(FenceError::Stale(stale)) => return Answer::Refused(stale.highest.get()),
                Err(_) => return Answer::Failed,
            },
        };
        sleep(takes).await;
        let resource = resource.as_str().to_owned();
        self.trace.accept(Stored { resource, token: token.get(), value });
        drop(admission);
        Answer::Accepted
    }
}
