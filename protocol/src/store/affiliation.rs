use crate::message::Reply;
use crate::{Fleet, Membership};

/// The fleet that a node belongs to, in the life that is written there: in a later one it forgot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Affiliation {
    #[default]
    None,
    Admitted(Membership),
    /// It has left for another fleet.
    Sealed {
        from: Membership,
        to: Fleet,
        /// Whether that fleet was started: the node may join any other then.
        started: bool,
    },
}

impl Affiliation {
    /// Returns the fleet other than `mine` that is written there, in whatever life.
    pub(super) fn other(&self, mine: &Fleet) -> Option<&Fleet> {
        match self {
            Affiliation::None => None,
            Affiliation::Admitted(at) => Some(&at.fleet).filter(|fleet| *fleet != mine),
            // This also holds where it has come back to the fleet that it left.
            Affiliation::Sealed { from, to, .. } => Some(if to == mine { &from.fleet } else { to }),
        }
    }

    /// Returns the refusal, if the node belongs to another fleet than `me`.
    pub(super) fn elsewhere(&self, me: &Membership) -> Option<Reply> {
        let (at, fleet, refusal): (_, _, fn(Fleet) -> Reply) = match self {
            Affiliation::None => return None,
            Affiliation::Admitted(at) => (at, &at.fleet, Reply::OtherFleet),
            Affiliation::Sealed { from, to, .. } => (from, to, Reply::Moved),
        };
        let elsewhere = at.incarnation == me.incarnation && *fleet != me.fleet;
        elsewhere.then(|| refusal(fleet.clone()))
    }
}
