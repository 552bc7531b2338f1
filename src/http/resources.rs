use crate::resource::Resource;

/// The resources that one request is about: what the closure of a [`FenceLayer`](super::FenceLayer) may
/// return, besides one [`Resource`]. A `Vec` of them is one.
///
/// With more than one, each needs its own token: the request carries a header
/// [`SEQUENCER`](super::SEQUENCER) for each, as [`attach_all`](super::attach_all()) puts them. All of them are admitted, or
/// the request is refused. They are admitted in the order of their names, so that two requests
/// never wait for each other. Each has the [limit](crate::fence::Fence::limit) of the fence to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources(Vec<Resource>);

impl Resources {
    /// How many resources a request may be about.
    pub const MOST: usize = 128;

    pub(super) fn into_vec(self) -> Vec<Resource> {
        self.0
    }
}

impl From<Resource> for Resources {
    fn from(resource: Resource) -> Resources {
        Resources(vec![resource])
    }
}

impl From<Vec<Resource>> for Resources {
    fn from(resources: Vec<Resource>) -> Resources {
        Resources(resources)
    }
}
