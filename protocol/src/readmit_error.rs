use super::Fault;

/// Why a node was not re-admitted, or a fleet not started. Nothing is lost: any client may try
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReadmitError {
    /// These nodes did not answer, or refused.
    #[error("a node that is needed does not answer, or refuses; try again")]
    Missing(Vec<(usize, Fault)>),
    /// Too few nodes remember. A new start needs an answer from every node, and these nodes did
    /// not give one.
    #[error("too few nodes remember, and a new start needs an answer from every node")]
    NotStarted(Vec<(usize, Fault)>),
    /// Too few nodes remember, and `strict` rules out a start that leans on clocks.
    #[error("too few nodes remember, and `strict` leaves a new start to an operator")]
    Strict,
    /// This node belongs to another fleet.
    #[error("{1}")]
    Elsewhere(usize, Fault),
    /// No era is left.
    #[error("no era is left: the largest one is in use")]
    NoEra,
    /// Counts are not collected in an era that the node's clock has not reached: after a loss of
    /// all nodes the clocks must be ahead of every era in use.
    #[error(
        "counts are not collected yet: era {era} is ahead of the node's clock ({clock}); try later"
    )]
    AheadOfClock {
        /// The era that would begin.
        era: u64,
        /// The node's clock as an era.
        clock: u64,
    },
    /// Something changed meanwhile: try again.
    #[error("overtaken by another re-admission or by a node that forgot; try again")]
    Overtaken,
}
