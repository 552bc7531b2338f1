use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{
    Fault, Nonce, Prepared, ReadmitError, Relocate, RelocateError, Relocation, Reply, Request, StartOrder, fault_of,
    majority,
};
use tokio::time::sleep;

use super::Redlock;
use super::nodes::Nodes;
use super::readmission::{self, SETTLED};
use crate::lock::error::{NodeCause, joined};
use crate::random::{self, jitter};

/// The number of tries of an operation that conflicts with others, or with nodes that forget.
const MAX_TRIES: u32 = 20;

/// Operations on the nodes of a lock service: see [`Redlock::operator`].
///
/// Clients do most of it automatically. Use it if no client runs, and for operations that clients must not start.
///
/// # Cancel safety
/// If you drop the future of an operation, it may have been done in part: run it again. After a part of a move the fleet
/// may grant nothing until then.
#[derive(Clone)]
pub struct FleetOperator {
    pub(super) nodes: Arc<Nodes>,
}

/// Why an operation was not finished. You may run it again: completed steps are kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// Every node is needed, and these do not answer, or refuse.
    #[error("every node is needed: {}", joined(.causes))]
    NotAll {
        /// Their faults.
        causes: Vec<NodeCause>,
    },
    /// The nodes are not blank: locks may be held.
    #[error(
        "the nodes are not new: one has granted locks, or holds older data. \
         `fencing fleet recover` re-admits nodes that were in use"
    )]
    NotBlank,
    /// Too few nodes of the old list remember.
    #[error(
        "{needed} nodes of the old list must answer with their state, and {answered} did: {}",
        joined(.causes)
    )]
    OldForgot {
        /// Number of nodes that answered with it.
        answered: usize,
        /// Number of nodes in a majority of the old list.
        needed: usize,
        /// The faults of the others.
        causes: Vec<NodeCause>,
    },
    /// A node belongs to another fleet.
    #[error("{0}. {way}", way = way_on(&.0.cause))]
    OtherFleet(NodeCause),
    /// The lists are the same.
    #[error("the old list and the new one are the same")]
    SameList,
    /// Both lists are in use as separate fleets.
    #[error("both lists are in use as separate fleets: a move between them is not possible")]
    BothInUse,
    /// The new list is in use, and too few nodes of the old one answer that they have left for it.
    #[error(
        "the new list is in use, and {left} nodes of the old one, of {needed} that are needed, say that they left for it"
    )]
    NotLeft {
        /// Number of nodes that have left for it.
        left: usize,
        /// Number of nodes in a majority of the old list.
        needed: usize,
    },
    /// Every try conflicted with other clients.
    #[error("every try conflicted with another client: run the operation again")]
    Overtaken,
    /// It was refused for another reason.
    #[error("{0}")]
    Refused(String),
}

/// Says what to do with a node that another list claims.
fn way_on(cause: &Fault) -> &'static str {
    match cause {
        Fault::Moved { .. } => "First run the move to that list again to complete it",
        _ => {
            "If the node missed a move, run that move again. Only if that fleet is not in use any more, and no client has its \
             list, restart the node's server without its data"
        }
    }
}

/// What an operation on the nodes has done.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeOutcomes {
    /// The nodes that are admitted; after [`FleetOperator::open`], those whose quarantine it ended.
    pub done: Vec<String>,
    /// The nodes where it failed, and why.
    pub causes: Vec<NodeCause>,
}

impl FleetOperator {
    /// Starts new nodes at once, and ends the quarantine of those that clients have started
    /// already and that have granted nothing yet. You thereby declare that no lock can be held: no node
    /// has been restarted without its data. Nodes that are in use stay as they are.
    ///
    /// # Errors
    /// [`OperatorError`]; [`OperatorError::NotBlank`] where a majority is not admitted and a node has been in use.
    pub async fn init(&self) -> Result<(), OperatorError> {
        self.repeat(|| async move {
            let prepared = self.prepared().await?;
            let admitted = prepared.iter().filter(|node| node.admitted).count();
            if admitted >= majority(prepared.len()) {
                // A client may have started them, now or before.
                if prepared.iter().all(|node| node.blank) {
                    let NodeOutcomes { causes, .. } = self.open().await;
                    if !causes.is_empty() {
                        return Err(Some(OperatorError::NotAll { causes }));
                    }
                }
                return Ok(());
            }
            let target = prepared.iter().position(|node| !node.admitted).unwrap_or(0);
            let order = StartOrder { strict: true, assume_no_locks: true, ..self.nodes.start_order() };
            match readmission::readmit(&self.nodes, target, false, order).await {
                // A client that started them at the same time has closed them.
                Ok(_) => Err(None),
                Err(error) => Err(self.error(error)),
            }
        })
        .await
    }

    /// Brings back every node that is not admitted, as clients do, with no client running. Where too few nodes
    /// remember, the fleet is started again: order then depends on the nodes' clocks. Clients that are
    /// [`strict`](super::RedlockBuilder::strict) leave that decision to you.
    pub async fn admit(&self) -> NodeOutcomes {
        let mut outcomes = NodeOutcomes { done: Vec::new(), causes: Vec::new() };
        for target in 0..self.nodes.size() {
            let readmitted = self
                .repeat(|| async move {
                    let order = StartOrder { strict: false, assume_no_locks: false, ..self.nodes.start_order() };
                    let outcome = readmission::readmit(&self.nodes, target, false, order).await;
                    outcome.map(drop).map_err(|error| self.error(error))
                })
                .await;
            let node = self.nodes.name(target).to_owned();
            let cause = match readmitted {
                Ok(()) => {
                    outcomes.done.push(node);
                    continue;
                }
                Err(OperatorError::NotAll { causes }) => {
                    let own = causes.iter().find(|cause| cause.node == node);
                    let missing = || causes.iter().map(|cause| cause.node.clone()).collect();
                    own.map_or_else(|| Fault::NotStarted { missing: missing() }, |own| own.cause.clone())
                }
                Err(OperatorError::OtherFleet(other)) if other.node == node => other.cause,
                Err(error) => Fault::Refused(error.to_string()),
            };
            outcomes.causes.push(NodeCause { node, cause });
        }
        outcomes
    }

    /// Ends the quarantine of every admitted node that answers. Returns the nodes whose quarantine it ended, and the
    /// faults of those that did not answer or refused. You thereby declare that no lock can be held any more. If one
    /// is, two leases of one resource may be valid at once, until the storage refuses the older one.
    pub async fn open(&self) -> NodeOutcomes {
        let (mut closed, mut faults) = (Vec::new(), Vec::new());
        for (node, answer) in self.nodes.submit_all(&Request::Inspect).all().await {
            match answer {
                Ok(Reply::Report { state, quarantine: Some(left), .. }) => closed.push((node, state.nonce, left)),
                Ok(_) => {}
                Err(fault) => faults.push((node, fault)),
            }
        }
        // Waits until the second of the start is over: if the fleet forgets everything again, it gets another era.
        let longest = closed.iter().map(|(_, _, left)| *left).max().unwrap_or_default();
        sleep(longest.min(SETTLED)).await;
        let mut done = Vec::new();
        let open = |(node, nonce, _): (usize, _, _)| (node.into(), Request::Open { nonce });
        for (node, answer) in self.nodes.submit_each(closed.into_iter().map(open)).all().await {
            match answer {
                Ok(Reply::Opened) => done.push(self.nodes.name(node).to_owned()),
                Ok(_) => faults.push((node, Fault::NotAdmitted)),
                Err(fault) => faults.push((node, fault)),
            }
        }
        NodeOutcomes { done, causes: self.nodes.causes(faults) }
    }

    /// Moves the fleet to another list of nodes: replaces nodes, adds some, or drops some. A
    /// majority of this list must remember, and every node of the new one answer.
    ///
    /// From then on clients of this list get no lease, and their leases end unrenewed. Once those have ended, clients
    /// of the new list get leases, with larger tokens. Give clients the new list when this has succeeded.
    ///
    /// You may interrupt it at any point and run it again; others may run it at the same time.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn move_to(&self, new: &Redlock) -> Result<(), OperatorError> {
        self.relocate(new, false).await
    }

    /// Moves a fleet whose list is lost: a majority has forgotten, or will never answer. Order then depends on the
    /// nodes' clocks and on the lost nodes staying away, exclusion on no lease outlasting the longest TTL of `new`.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub async fn move_lost_to(&self, new: &Redlock) -> Result<(), OperatorError> {
        self.relocate(new, true).await
    }

    async fn relocate(&self, new: &Redlock, lost: bool) -> Result<(), OperatorError> {
        if self.nodes.context.fleet == new.backend.context.fleet {
            return Err(OperatorError::SameList);
        }
        let to = &new.operator();
        self.repeat(|| async move {
            let order = Relocation {
                old: self.nodes.context.fleet.clone(),
                new: to.nodes.context.fleet.clone(),
                nonce: Nonce(random::u128()),
                longest: to.nodes.longest(),
                lost,
            };
            let mut relocate = Relocate::new(order);
            let answers = to.nodes.begin(&mut relocate);
            let outcome = to.nodes.drive_from(&self.nodes, &mut relocate, answers).await;
            let overtaken = RelocateError::NotStarted(ReadmitError::Overtaken);
            outcome.unwrap_or(Err(overtaken)).map_err(|error| match error {
                RelocateError::OldMissing { answered, needed, faults } => {
                    let causes = self.nodes.causes(faults);
                    Some(OperatorError::OldForgot { answered, needed, causes })
                }
                // A node of the old list that did not answer while the list was sealed.
                RelocateError::NotStarted(ReadmitError::Elsewhere(_, Fault::OtherFleet { members }))
                    if members.iter().eq(self.nodes.context.fleet.members()) =>
                {
                    None
                }
                RelocateError::NotStarted(error) => to.error(error),
                RelocateError::OldElsewhere(node, fault) => Some(self.other_fleet(node, fault)),
                RelocateError::BothInUse => Some(OperatorError::BothInUse),
                RelocateError::NotLeft(left) => {
                    Some(OperatorError::NotLeft { left, needed: majority(self.nodes.size()) })
                }
            })
        })
        .await
    }

    /// Asks every node to prepare, which marks a node that has forgotten and changes nothing else.
    async fn prepared(&self) -> Result<Vec<Prepared>, Option<OperatorError>> {
        let nonce = Nonce(random::u128());
        let (mut prepared, mut faults) = (Vec::new(), Vec::new());
        for (node, answer) in self.nodes.submit_all(&Request::Prepare { nonce, from: None }).all().await {
            match answer {
                Ok(Reply::Prepared(answer)) => prepared.push(answer),
                other => faults.push((node, fault_of(other))),
            }
        }
        if faults.is_empty() { Ok(prepared) } else { Err(Some(self.not_all(faults))) }
    }

    fn other_fleet(&self, node: usize, cause: Fault) -> OperatorError {
        OperatorError::OtherFleet(NodeCause { node: self.nodes.name(node).to_owned(), cause })
    }

    fn not_all(&self, faults: Vec<(usize, Fault)>) -> OperatorError {
        OperatorError::NotAll { causes: self.nodes.causes(faults) }
    }

    /// Returns the error, or `None` where another try may succeed.
    fn error(&self, error: ReadmitError) -> Option<OperatorError> {
        match error {
            // A connection broke while it was idle; the next try has another one.
            ReadmitError::Missing(faults) | ReadmitError::NotStarted(faults)
                if faults.iter().any(|(_, fault)| matches!(fault, Fault::Disconnected(_))) =>
            {
                None
            }
            ReadmitError::Missing(faults) | ReadmitError::NotStarted(faults) => Some(self.not_all(faults)),
            ReadmitError::Strict => Some(OperatorError::NotBlank),
            ReadmitError::Elsewhere(node, fault) => Some(self.other_fleet(node, fault)),
            ReadmitError::Overtaken => None,
            other => Some(OperatorError::Refused(other.to_string())),
        }
    }

    /// Tries until it is done, or until an error comes that another try does not change.
    async fn repeat<F>(&self, attempt: impl Fn() -> F) -> Result<(), OperatorError>
    where
        F: Future<Output = Result<(), Option<OperatorError>>>,
    {
        for _ in 0..MAX_TRIES {
            match attempt().await {
                Ok(()) => return Ok(()),
                Err(Some(error)) => return Err(error),
                Err(None) => {
                    let pause = Duration::from_millis(50);
                    sleep(pause + jitter(pause)).await;
                }
            }
        }
        Err(OperatorError::Overtaken)
    }
}

#[cfg(test)]
mod tests {
    use super::{FleetOperator, Redlock};

    /// It compiles if a spawned task may run operations.
    #[test]
    fn its_futures_are_send() {
        fn is_send(_: impl Send) {}
        let _ = |operator: FleetOperator, new: Redlock| {
            is_send(operator.init());
            is_send(operator.admit());
            is_send(operator.open());
            is_send(operator.move_to(&new));
            is_send(operator.move_lost_to(&new));
        };
    }
}
