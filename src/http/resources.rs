use fencing_protocol::{NonEmpty, Resource};

/// The resources that one request is about: what the closure of a [`FenceLayer`](super::FenceLayer) may
/// return, besides one [`Resource`]. A `Vec` of them is one.
///
/// With more than one, each needs its own token: the request carries a header [`SEQUENCER`](super::SEQUENCER) for each,
/// as [`attach_all`](super::attach_all()) puts them. All of them are admitted, or the request is refused. They are
/// admitted in the order of their names, so that two requests never wait for each other. The
/// [limit](crate::fence::Fence::limit) of the fence counts for each resource separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources(pub(super) Option<NonEmpty<Resource>>);

impl Resources {
    /// The most resources of a request.
    pub const MOST: usize = 128;
}

impl From<Resource> for Resources {
    fn from(resource: Resource) -> Resources {
        Resources(Some(NonEmpty::new(resource)))
    }
}

impl From<Vec<Resource>> for Resources {
    fn from(resources: Vec<Resource>) -> Resources {
        Resources(NonEmpty::from_vec(resources))
    }
}
