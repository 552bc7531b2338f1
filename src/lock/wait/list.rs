use fencing_protocol::{NonEmpty, Resource};

use crate::lock::error::{AcquireError, MAX_RESOURCES};

/// Resources that a caller waits for in one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum List {
    /// The first that is free, in this order.
    Any(NonEmpty<Resource>),
    /// All of them, in the order of their names and each of them once.
    All(NonEmpty<Resource>),
}

impl List {
    pub(crate) fn any(resources: &[Resource]) -> Result<List, AcquireError> {
        bounded(resources.to_vec()).map(List::Any)
    }

    pub(crate) fn all(resources: &[Resource]) -> Result<List, AcquireError> {
        let mut resources = resources.to_vec();
        resources.sort_unstable();
        resources.dedup();
        bounded(resources).map(List::All)
    }

    pub(crate) fn resources(&self) -> &NonEmpty<Resource> {
        let (List::Any(resources) | List::All(resources)) = self;
        resources
    }
}

fn bounded(resources: Vec<Resource>) -> Result<NonEmpty<Resource>, AcquireError> {
    let count = resources.len();
    let wrong = AcquireError::WrongCount { count, most: MAX_RESOURCES };
    NonEmpty::from_vec(resources).filter(|_| count <= MAX_RESOURCES).ok_or(wrong)
}
