use super::NodeCause;

/// How the nodes stand, as this client sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// How many nodes are a majority.
    pub needed: usize,
    /// How many answer and are admitted; one in quarantine is, but grants nothing yet.
    pub admitted: usize,
    /// What stands against the others.
    pub causes: Vec<NodeCause>,
}

impl Health {
    /// Whether a majority answers and is admitted.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.admitted >= self.needed
    }
}
