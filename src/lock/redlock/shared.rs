use std::sync::Arc;
use std::time::Duration;

use super::distinct_servers::DistinctServers;
use super::notices::Notices;
use super::outstanding::Outstanding;
use crate::lock::hints::Hints;
use crate::protocol::{ClientId, Fleet};

/// What the lanes of one lock service share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) fleet: Fleet,
    pub(super) budget: Duration,
    pub(super) notices: Arc<Notices>,
    pub(super) distinct_servers: Arc<DistinctServers>,
    pub(super) outstanding: Outstanding,
    pub(super) client: ClientId,
    pub(super) hints: Hints,
}
