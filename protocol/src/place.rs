use super::message::Reply;
use super::{Fleet, Membership};

/// The fleet that a node belongs to. It holds for the life that is written there; in a later
/// life the node has forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Place {
    #[default]
    Nowhere,
    Admitted(Membership),
    /// It has left for this fleet. `true` means that the fleet was started, so that the node may
    /// join any other.
    Sealed(Membership, Fleet, bool),
}

impl Place {
    /// Returns the fleet other than `mine` that is written there, in whatever life.
    pub(super) fn other(&self, mine: &Fleet) -> Option<&Fleet> {
        match self {
            Place::Nowhere => None,
            Place::Admitted(at) => Some(&at.fleet).filter(|fleet| *fleet != mine),
            // This also holds where it has come back to the fleet that it left.
            Place::Sealed(at, to, _) => Some(if to == mine { &at.fleet } else { to }),
        }
    }

    /// Returns the refusal, if the node belongs to another fleet than `me`.
    pub(super) fn elsewhere(&self, me: &Membership) -> Option<Reply> {
        match self {
            Place::Admitted(at) if at.incarnation == me.incarnation && at.fleet != me.fleet => {
                Some(Reply::OtherFleet(at.fleet.clone()))
            }
            Place::Sealed(at, to, _) if at.incarnation == me.incarnation && *to != me.fleet => {
                Some(Reply::Moved(to.clone()))
            }
            _ => None,
        }
    }
}
