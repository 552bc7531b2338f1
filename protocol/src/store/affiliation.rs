use crate::message::Reply;
use crate::{Fleet, Membership};

/// The fleet that a node belongs to. It holds for the life that is written there; in a later
/// life the node has forgotten.
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
        match self {
            Affiliation::Admitted(at)
                if at.incarnation == me.incarnation && at.fleet != me.fleet =>
            {
                Some(Reply::OtherFleet(at.fleet.clone()))
            }
            Affiliation::Sealed { from, to, .. }
                if from.incarnation == me.incarnation && *to != me.fleet =>
            {
                Some(Reply::Moved(to.clone()))
            }
            _ => None,
        }
    }
}
