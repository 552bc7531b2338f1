use super::message::Reply;
use super::{Fleet, Membership};

/// To which fleet a node belongs. It holds for the life that is written there; in a later
/// one the node has forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Place {
    #[default]
    Nowhere,
    Admitted(Membership),
    /// It has left, for this fleet. `true`: which was started, so that it may join any other.
    Sealed(Membership, Fleet, bool),
}

impl Place {
    /// The fleet that stands there besides `mine`, whatever the life.
    pub(super) fn other(&self, mine: &Fleet) -> Option<&Fleet> {
        match self {
            Place::Nowhere => None,
            Place::Admitted(at) => Some(&at.fleet).filter(|fleet| *fleet != mine),
            // Also where it has come back to the one that it left.
            Place::Sealed(at, to, _) => Some(if to == mine { &at.fleet } else { to }),
        }
    }

    /// Why somebody else's node has nothing to do with `me`.
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
