use std::time::Duration;

use super::machine::{Address, Machine};
use super::message::{NodeState, Prepared, Reply, Request};
use super::round::{ReadmitError, Readmitted, Round, StartOrder, era_after, longest};
use super::start::Start;
use super::{Fault, Nonce, Time};

/// Time for which a client waits for clients with another list before it starts blank nodes, besides budgets. They
/// connect again within a second, the longest pause between two attempts.
const OTHER_LISTS_TIMEOUT: Duration = Duration::from_millis(1200);

/// The phase of a re-admission. Most phases keep the first answer of the target node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ReadmitPhase {
    /// Marks the memory of the target.
    Prepare,
    /// Reads what the others know.
    Read(Prepared),
    /// Has the others promise the era.
    Reserve { target: Prepared, era: u64 },
    /// Checks that they still have the promise. Keeps the memory in which each node promised.
    Confirm { target: Prepared, era: u64, promised: Vec<Option<Nonce>> },
    /// Admits the target, or has it drop its counts.
    Activate { quarantine: Duration },
    /// Starts the fleet, as too few nodes remember.
    Start(Start),
    /// It has ended.
    Done(Result<Readmitted, ReadmitError>),
}

type Next = Result<ReadmitPhase, ReadmitError>;

/// One re-admission, as a state machine: protocol, "Re-admission".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Readmit {
    target: usize,
    collect: bool,
    order: StartOrder,
    phase: ReadmitPhase,
    round: Round,
}

impl Readmit {
    /// Starts to bring the node of this number back among `nodes` nodes. With `collect` it collects the counts of
    /// the node if that is admitted.
    pub fn new(nodes: usize, target: usize, collect: bool, order: StartOrder) -> Readmit {
        let mut round = Round::new(nodes);
        round.ask([(target, Request::Prepare { nonce: order.nonce, from: None })]);
        Readmit { target, collect, order, phase: ReadmitPhase::Prepare, round }
    }

    fn ask_others(&mut self, request: &Request) {
        self.round.ask_those(request, |node| node != self.target);
    }

    fn prepared(&mut self) -> Next {
        let Some(target) = self.round.each(Reply::prepared).into_iter().flatten().next() else {
            return Err(self.round.failure(|_| false, ReadmitError::Missing));
        };
        if target.admitted && !(self.collect && target.crowded) {
            return Ok(ReadmitPhase::Done(Ok(Readmitted::default())));
        }
        // Among one or two nodes any loss is more than a minority: no other need know the era.
        if self.round.nodes() <= 2 && target.admitted {
            let era = next_era(&target, &[])?;
            return Ok(self.activate(&target, era, Duration::ZERO));
        }
        if self.round.nodes() == 1 {
            return Ok(self.start());
        }
        self.ask_others(&Request::Read);
        Ok(ReadmitPhase::Read(target))
    }

    fn start(&mut self) -> ReadmitPhase {
        ReadmitPhase::Start(Start::new(self.order, None, &mut self.round))
    }

    fn read(&mut self, target: Prepared) -> Next {
        if let Some(states) = self.round.of_majority(self.round.each(Reply::state)) {
            let era = next_era(&target, &states)?;
            self.ask_others(&Request::Reserve { era, memory: None });
            return Ok(ReadmitPhase::Reserve { target, era });
        }
        let answers = |reply: &Reply| matches!(reply, Reply::State(_) | Reply::NotAdmitted);
        if self.round.faults(answers).is_empty() {
            return Ok(self.start());
        }
        Err(self.round.failure(answers, ReadmitError::NotStarted))
    }

    /// Continues once a majority has promised the era: it must not be used before.
    fn reserved(&mut self, target: Prepared, era: u64) -> Next {
        if let Some(promised) = self.round.of_majority(self.round.each(Reply::promise)) {
            let has_promised = |node| matches!(promised.get(node), Some(Some(_)));
            self.round.ask_those(&Request::Read, has_promised);
            return Ok(ReadmitPhase::Confirm { target, era, promised });
        }
        Err(self.round.failure(|reply| reply.promise().is_some(), ReadmitError::Missing))
    }

    /// Continues once a majority still has the promise, in the memory in which it gave it.
    fn confirmed(&mut self, target: Prepared, era: u64, promised: Vec<Option<Nonce>>) -> Next {
        if let Some(held) = self.round.unchanged(&promised, era, |nonce, now| *nonce == now.nonce) {
            // One of these nodes as well granted or renewed each lease that the target has forgotten.
            let longest = longest(&held).max(target.state.longest);
            return Ok(self.activate(&target, era, longest));
        }
        Err(self.round.failure(|reply| matches!(reply, Reply::State(_)), ReadmitError::Missing))
    }

    fn activate(&mut self, target: &Prepared, era: u64, quarantine: Duration) -> ReadmitPhase {
        let quarantine = if target.admitted { Duration::ZERO } else { quarantine };
        let (nonce, collect, new) = (target.state.nonce, target.admitted, false);
        let request = Request::Activate { nonce, era, collect, quarantine, new };
        self.round.ask([(self.target, request)]);
        ReadmitPhase::Activate { quarantine }
    }

    fn activated(&mut self, quarantine: Duration) -> Next {
        if self.round.count(|reply| *reply == Reply::Activated) > 0 {
            return Ok(ReadmitPhase::Done(Ok(Readmitted { quarantine, fleet: false })));
        }
        Err(self.round.failure(|reply| *reply == Reply::Forgotten, ReadmitError::Missing))
    }

    fn started(&mut self, start: Start) -> Next {
        let start = start.step(&mut self.round)?;
        Ok(match start.done() {
            Some(quarantine) => ReadmitPhase::Done(Ok(Readmitted { quarantine, fleet: true })),
            None => ReadmitPhase::Start(start),
        })
    }
}

impl Machine for Readmit {
    type Outcome = Result<Readmitted, ReadmitError>;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.round.next_request()
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        if !self.round.take(from, reply) || !self.round.is_over() {
            return;
        }
        let next = match self.phase.clone() {
            ReadmitPhase::Prepare => self.prepared(),
            ReadmitPhase::Read(target) => self.read(target),
            ReadmitPhase::Reserve { target, era } => self.reserved(target, era),
            ReadmitPhase::Confirm { target, era, promised } => self.confirmed(target, era, promised),
            ReadmitPhase::Activate { quarantine } => self.activated(quarantine),
            ReadmitPhase::Start(start) => self.started(start),
            done @ ReadmitPhase::Done(_) => Ok(done),
        };
        self.phase = next.unwrap_or_else(|error| ReadmitPhase::Done(Err(error)));
    }

    fn outcome(&self, _: Time) -> Option<Result<Readmitted, ReadmitError>> {
        if let ReadmitPhase::Done(outcome) = &self.phase { Some(outcome.clone()) } else { None }
    }

    fn pause(&self, budget: Duration) -> Duration {
        match &self.phase {
            _ if !self.round.is_unsent() => Duration::ZERO,
            // A request in flight to the others when the target forgot times out by its client before they are
            // asked what may be held. A node that is admitted has forgotten nothing.
            ReadmitPhase::Reserve { target, .. } if !target.admitted => budget * 2,
            // Blank nodes may belong to a longer list, whose clients bring them back meanwhile: the promise is
            // then refused. Later it would be too late, as a node that is active is bound to this list.
            ReadmitPhase::Start(start) if start.may_be_of_others() => OTHER_LISTS_TIMEOUT + budget * 4,
            _ => Duration::ZERO,
        }
    }
}

/// Returns an era above all that these nodes know of.
fn next_era(target: &Prepared, others: &[Option<NodeState>]) -> Result<u64, ReadmitError> {
    let known = others.iter().flatten().chain([&target.state]).map(NodeState::highest);
    let (era, clock) = (era_after(known)?, target.clock.as_secs());
    if target.admitted && era >= clock {
        return Err(ReadmitError::AheadOfClock { era, clock });
    }
    Ok(era)
}
