use std::time::Duration;

use super::acquire::fault_of;
use super::message::{Reply, Request};
use super::readmit_error::ReadmitError;
use super::round::Round;
use super::start::{Beginning, Start};
use super::state::{Prepared, State};
use super::{Fault, Nonce, Stamp, majority};

/// The order for a re-admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Readmission {
    /// The number of the node to bring back, or of the one whose counts to collect.
    pub target: usize,
    /// Whether to collect its counts if it is admitted.
    pub collect: bool,
    /// 128 fresh random bits.
    pub nonce: Nonce,
    /// The longest TTL that this client uses, lock delay included.
    pub longest: Duration,
    /// Whether to refuse a start that leans on clocks, unless `nothing_out`.
    pub strict: bool,
    /// Whether an operator has said that no lock can be out if all nodes are blank.
    pub nothing_out: bool,
}

/// Where a re-admission stands. Most phases keep the first answer of the target node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Prepare,
    Read(Prepared),
    Reserve(Prepared, u64),
    /// With the memory in which each node promised.
    Confirm(Prepared, u64, Vec<Option<Nonce>>),
    Activate,
    Start(Start),
    Done(Result<(), ReadmitError>),
}

/// One re-admission, as a state machine: protocol, "Re-admission".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Readmit {
    order: Readmission,
    phase: Phase,
    round: Round,
}

/// The rounds of a start are numbered from here on.
const STARTS: u8 = 16;

impl Readmit {
    /// Starts a re-admission among `nodes` nodes.
    #[must_use]
    pub fn new(nodes: usize, order: Readmission) -> Readmit {
        let mut readmit = Readmit { order, phase: Phase::Prepare, round: Round::new(nodes) };
        let prepare = Request::Prepare { nonce: order.nonce, from: None };
        readmit.round.ask([(order.target, prepare)]);
        readmit
    }

    /// Returns what to send next, and to which node. Give each reply back together with the
    /// [`phase`](Readmit::phase) of its request: replies of an earlier phase do not count.
    pub fn next_request(&mut self) -> Option<(usize, Request)> {
        match &mut self.phase {
            Phase::Start(start) => start.next_request(),
            _ => self.round.next_request(),
        }
    }

    /// Returns how it ended, once it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), ReadmitError>> {
        match &self.phase {
            Phase::Done(outcome) => Some(outcome.clone()),
            Phase::Start(start) => start.outcome(),
            _ => None,
        }
    }

    /// Returns the number of the phase, which you give back with each reply.
    #[must_use]
    pub fn phase(&self) -> u8 {
        match &self.phase {
            Phase::Start(start) => STARTS + start.phase(),
            _ => self.round.number(),
        }
    }

    /// Takes what a node answered to a request of `phase`, or why it did not.
    pub fn on_reply(&mut self, phase: u8, node: usize, reply: Result<Reply, Fault>) {
        if let Phase::Start(start) = &mut self.phase {
            if let Some(phase) = phase.checked_sub(STARTS) {
                start.on_reply(phase, node, reply);
            }
            return;
        }
        if !self.round.take(phase, node, reply) {
            return;
        }
        let outcome = match self.phase.clone() {
            Phase::Prepare => self.prepared(),
            Phase::Read(target) => self.read(target),
            Phase::Reserve(target, era) => self.reserved(target, era),
            Phase::Confirm(target, era, promised) => self.confirmed(&target, era, &promised),
            Phase::Activate => self.activated(),
            Phase::Start(_) | Phase::Done(_) => Ok(()),
        };
        if outcome.is_err() {
            self.phase = Phase::Done(outcome);
        }
    }

    fn done(&mut self) -> Result<(), ReadmitError> {
        self.phase = Phase::Done(Ok(()));
        Ok(())
    }

    fn ask_others(&mut self, request: &Request) {
        self.round.ask_all(request, Some(self.order.target));
    }

    fn prepared(&mut self) -> Result<(), ReadmitError> {
        let target = match self.round.reply(self.order.target) {
            Some(Ok(Reply::Prepared(target))) => target.clone(),
            other => {
                let fault = other.cloned().map_or(Fault::TimedOut, fault_of);
                return Err(match self.round.elsewhere() {
                    Some((node, fault)) => ReadmitError::Elsewhere(node, fault),
                    None => ReadmitError::Missing(vec![(self.order.target, fault)]),
                });
            }
        };
        if target.admitted && !(self.order.collect && target.crowded) {
            return self.done();
        }
        // Among one or two nodes any loss is more than a minority: no other node needs to know
        // the era.
        if self.round.nodes() <= 2 && target.admitted {
            let era = target.state.highest().saturating_add(1);
            self.check_era(&target, era)?;
            self.activate(&target, era, Duration::ZERO);
        } else if self.round.nodes() == 1 {
            self.start();
        } else {
            self.phase = Phase::Read(target);
            self.ask_others(&Request::Read);
        }
        Ok(())
    }

    fn start(&mut self) {
        let Readmission { nonce, longest, strict, nothing_out, .. } = self.order;
        let order = Beginning { nonce, longest, strict, nothing_out, from: None };
        self.phase = Phase::Start(Start::new(self.round.nodes(), order));
    }

    fn read(&mut self, target: Prepared) -> Result<(), ReadmitError> {
        let states: Vec<State> = self.round.each(state).into_iter().flatten().collect();
        if states.len() >= majority(self.round.nodes()) {
            let highest = states.iter().map(State::highest).max().unwrap_or(0);
            let era = highest.max(target.state.highest()).saturating_add(1);
            self.check_era(&target, era)?;
            self.phase = Phase::Reserve(target, era);
            self.ask_others(&Request::Reserve { era, memory: None });
        } else if self.round.is_over() {
            let answered = |reply: &Reply| match reply {
                Reply::State(_) | Reply::NotAdmitted => Some(()),
                _ => None,
            };
            if let Some((node, fault)) = self.round.elsewhere() {
                return Err(ReadmitError::Elsewhere(node, fault));
            }
            let faults = self.round.faults(answered);
            if !faults.is_empty() {
                return Err(ReadmitError::NotStarted(faults));
            }
            self.start();
        }
        Ok(())
    }

    fn check_era(&self, target: &Prepared, era: u64) -> Result<(), ReadmitError> {
        let clock = target.clock.as_secs();
        if era > Stamp::MAX_ERA {
            return Err(ReadmitError::NoEra);
        }
        if target.admitted && era >= clock {
            return Err(ReadmitError::AheadOfClock { era, clock });
        }
        Ok(())
    }

    /// Goes on once a majority has promised the era: it must not be used before.
    fn reserved(&mut self, target: Prepared, era: u64) -> Result<(), ReadmitError> {
        let promised = self.round.each(|reply| match reply {
            Reply::Reserved { nonce } => Some(*nonce),
            _ => None,
        });
        if promised.iter().flatten().count() >= majority(self.round.nodes()) {
            let nodes = promised.iter().enumerate().filter(|(_, nonce)| nonce.is_some());
            self.round.ask(nodes.map(|(node, _)| (node, Request::Read)).collect::<Vec<_>>());
            self.phase = Phase::Confirm(target, era, promised);
            return Ok(());
        }
        self.unless_over(|reply| matches!(reply, Reply::Reserved { .. }))
    }

    /// Goes on once a majority still has the promise. The promises are not of one moment: a node
    /// that promised early may have forgotten since. A node that still has the promise, in the
    /// memory in which it gave it, had it when this round began.
    fn confirmed(
        &mut self,
        target: &Prepared,
        era: u64,
        promised: &[Option<Nonce>],
    ) -> Result<(), ReadmitError> {
        let states = self.round.each(state);
        let held = || {
            promised.iter().zip(&states).filter_map(|pair| match pair {
                (Some(nonce), Some(state)) => {
                    (*nonce == state.nonce && state.highest() >= era).then_some(state)
                }
                _ => None,
            })
        };
        if held().count() >= majority(self.round.nodes()) {
            // A lease that the target may have forgotten was granted or renewed by one of these
            // nodes as well.
            let longest = held().map(|state| state.longest).max().unwrap_or_default();
            let quarantine = longest.max(target.state.longest);
            self.activate(target, era, quarantine);
            return Ok(());
        }
        self.unless_over(|reply| matches!(reply, Reply::State(_)))
    }

    /// Goes on waiting, or returns why there is nothing left to wait for.
    fn unless_over(&self, right: impl Fn(&Reply) -> bool) -> Result<(), ReadmitError> {
        if !self.round.is_over() {
            return Ok(());
        }
        let faults = self.round.faults(|reply| right(reply).then_some(()));
        Err(if faults.is_empty() { ReadmitError::Overtaken } else { ReadmitError::Missing(faults) })
    }

    fn activate(&mut self, target: &Prepared, era: u64, quarantine: Duration) {
        let Prepared { incarnation, state, admitted, .. } = target;
        let request = Request::Activate {
            incarnation: incarnation.clone(),
            nonce: state.nonce,
            era,
            collect: *admitted,
            quarantine: if *admitted { Duration::ZERO } else { quarantine },
            new: false,
        };
        self.phase = Phase::Activate;
        self.round.ask([(self.order.target, request)]);
    }

    fn activated(&mut self) -> Result<(), ReadmitError> {
        match self.round.reply(self.order.target) {
            Some(Ok(Reply::Activated)) => self.done(),
            Some(Ok(Reply::Forgotten)) => Err(ReadmitError::Overtaken),
            other => {
                let fault = other.cloned().map_or(Fault::TimedOut, fault_of);
                Err(ReadmitError::Missing(vec![(self.order.target, fault)]))
            }
        }
    }
}

fn state(reply: &Reply) -> Option<State> {
    match reply {
        Reply::State(state) => Some(*state),
        _ => None,
    }
}
