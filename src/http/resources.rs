use fencing_protocol::Resource;

/// The resources that one request is about: what the closure of a [`FenceLayer`](super::FenceLayer) may
/// return, besides one [`Resource`]. A `Vec` of them is one.
///
/// With more than one, each needs its own token: the request carries a header
/// [`SEQUENCER`](super::SEQUENCER) for each, as [`attach_all`](super::attach_all()) puts them. All of them are admitted, or
/// the request is refused. They are admitted in the order of their names, so that two requests never wait for each
/// other. The [limit](crate::fence::Fence::limit) of the fence counts for each resource by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// Mostly the only one.
    first: Option<Resource>,
    others: Vec<Resource>,
}

impl Resources {
    /// How many resources a request may be about.
    pub const MOST: usize = 128;

    /// Returns the resource, or all of them if there is not exactly one.
    pub(super) fn into_one(self) -> Result<Resource, Vec<Resource>> {
        match self {
            Resources { first: Some(first), others } if others.is_empty() => Ok(first),
            several => Err(several.into_vec()),
        }
    }

    pub(super) fn into_vec(self) -> Vec<Resource> {
        self.first.into_iter().chain(self.others).collect()
    }
}

impl From<Resource> for Resources {
    fn from(resource: Resource) -> Resources {
        Resources { first: Some(resource), others: Vec::new() }
    }
}

impl From<Vec<Resource>> for Resources {
    fn from(resources: Vec<Resource>) -> Resources {
        let mut resources = resources.into_iter();
        Resources { first: resources.next(), others: resources.collect() }
    }
}
