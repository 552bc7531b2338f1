use std::time::Duration;

use super::machine::{Address, Machine, Side};
use super::message::{NodeState, Reply, Request, Sealing};
use super::round::{ReadmitError, Round, StartOrder, States, era_after, longest};
use super::start::Start;
use super::{Fault, Fleet, Nonce, Time};

/// The order to move a fleet to another list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relocation {
    /// The list that the fleet leaves.
    pub old: Fleet,
    /// The list that starts.
    pub new: Fleet,
    /// 128 fresh random bits.
    pub nonce: Nonce,
    /// Time for which a lock that no node remembers may still be held.
    pub longest: Duration,
    /// Whether to continue although no majority of the old list remembers, because an operator has
    /// declared it lost. The order of the tokens then depends on the nodes' clocks.
    pub lost: bool,
}

/// Why a fleet was not moved. Run the move again: completed steps are kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RelocateError {
    /// Too few nodes of the old list answer and remember.
    OldMissing {
        /// Number of nodes that answer and remember.
        answered: usize,
        /// Number of nodes in a majority.
        needed: usize,
        /// The faults of the others.
        faults: Vec<(usize, Fault)>,
    },
    /// This node of the old list belongs to a third fleet, or has left for one.
    OldElsewhere(usize, Fault),
    /// Both lists are in use as separate fleets: neither continues the other.
    BothInUse,
    /// The new list is in use, and only this number of nodes of the old list answer that they have left for it.
    NotLeft(usize),
    /// The new list was not started. Every node of it must answer.
    NotStarted(ReadmitError),
}

type Next = Result<RelocatePhase, RelocateError>;

/// The phase of a move.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RelocatePhase {
    /// Reads the state of the new list.
    Look,
    /// Checks that the old list was left: the new one has a majority in this era.
    Peek(u64),
    /// Has the nodes of the old list leave it.
    Seal,
    /// Marks the new nodes, and reads them.
    Mark(Start),
    /// Reads what the sealed nodes know. A node of both lists has its mark by now.
    Count(Start),
    /// Has the sealed nodes promise the era. Keeps what each of them answered.
    Promise { before: States, era: u64, start: Start },
    /// Checks that they held the promise at one moment.
    Confirm { before: States, era: u64, start: Start },
    /// Starts the new list in this era.
    Start { start: Start, era: u64 },
    /// Seals members of the old list that came back late. The move is done.
    Sweep,
    /// It has ended.
    Done(Result<(), RelocateError>),
}

/// One move of a fleet to another list of nodes, as a state machine: protocol, "Moving a fleet".
/// You may interrupt it anywhere, run it again, and run it twice at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relocate {
    order: Relocation,
    phase: RelocatePhase,
    old: Round,
    new: Round,
}

impl Relocate {
    /// Starts to move a fleet.
    pub fn new(order: Relocation) -> Relocate {
        let mut old = Round::new(order.old.members().count());
        let mut new = Round::new(order.new.members().count());
        new.ask_those(&Request::Prepare { nonce: order.nonce, from: None }, |_| true);
        // The first phase asks the new list and the later ones the old: their numbers differ.
        old.number = new.number;
        Relocate { order, phase: RelocatePhase::Look, old, new }
    }

    fn side(&self) -> Side {
        let is_new = matches!(self.phase, RelocatePhase::Look | RelocatePhase::Mark(_) | RelocatePhase::Start { .. });
        if is_new { Side::New } else { Side::Old }
    }

    fn round(&mut self) -> &mut Round {
        if self.side() == Side::New { &mut self.new } else { &mut self.old }
    }

    /// Checks, before anything is sealed, whether the new list can be started, or was.
    fn looked(&mut self) -> Next {
        let fits = |reply: &Reply| match reply {
            // A node of the old list that has not been sealed yet.
            Reply::OtherFleet(fleet) => *fleet == self.order.old,
            reply => matches!(reply, Reply::Prepared(_) | Reply::Moved(_)),
        };
        if !self.new.faults(fits).is_empty() {
            return Err(RelocateError::NotStarted(self.new.failure(fits, ReadmitError::NotStarted)));
        }
        let answers = self.new.each(|reply| reply.prepared().filter(|answer| answer.admitted));
        let admitted = || answers.iter().flatten().map(|answer| answer.state.era);
        if admitted().count() >= self.new.majority() {
            self.old.ask_those(&Request::Read, |_| true);
            return Ok(RelocatePhase::Peek(admitted().max().unwrap_or(0)));
        }
        self.seal(Sealing::Leave, |_| true);
        Ok(RelocatePhase::Seal)
    }

    /// Ends the move if the new list, which has a majority already, continues the old one: a majority has left for it.
    fn peeked(&mut self, era: u64) -> Next {
        let (needed, new) = (self.old.majority(), &self.order.new);
        let has_left = |it: &Reply| matches!(it, Reply::Moved(to) | Reply::OtherFleet(to) if to == new);
        let left = self.old.count(has_left);
        if self.old.count(has_state) >= needed {
            return Err(RelocateError::BothInUse);
        }
        // Otherwise it may be another fleet, and the old one, or a third one, would go on beside it.
        if left < needed && !self.order.lost {
            let third = self.old.elsewhere(|it| has_state(it) || has_left(it));
            let third = third.map(|(node, fault)| RelocateError::OldElsewhere(node, fault));
            return Err(third.unwrap_or(RelocateError::NotLeft(left)));
        }
        Ok(self.sweep(era))
    }

    /// Seals the old list once more. A member may have rejoined it while the others left, and would stay there for
    /// good. Those that have left may join other lists from now on. What they answer does not matter.
    fn sweep(&mut self, era: u64) -> RelocatePhase {
        self.seal(Sealing::Done(era), |_| true);
        RelocatePhase::Sweep
    }

    fn seal(&mut self, step: Sealing, which: impl Fn(usize) -> bool) {
        self.old.ask_those(&Request::Seal { to: self.order.new.clone(), step }, which);
    }

    /// Has the nodes promise the era that gave these answers.
    fn reserve(&mut self, era: u64, states: &States) {
        self.seal(Sealing::Promise(era), |node| matches!(states.get(node), Some(Some(_))));
    }

    fn sealed(&mut self) -> Next {
        self.check_left()?;
        let Relocation { nonce, longest, ref old, .. } = self.order;
        let order = StartOrder { nonce, longest, strict: false, assume_no_locks: false };
        Ok(RelocatePhase::Mark(Start::new(order, Some(old.clone()), &mut self.new)))
    }

    /// Checks that a majority has left, which these answers show, unless an operator has declared the list lost.
    fn check_left(&self) -> Result<(), RelocateError> {
        if self.old.count(has_state) >= self.old.majority() || self.order.lost {
            return Ok(());
        }
        let elsewhere = self.old.elsewhere(has_state).map(|(node, fault)| RelocateError::OldElsewhere(node, fault));
        Err(elsewhere.unwrap_or_else(|| self.old_missing()))
    }

    fn marked(&mut self, start: Start) -> Next {
        let start = start.step(&mut self.new).map_err(RelocateError::NotStarted)?;
        if start.highest().is_none() {
            return Ok(RelocatePhase::Mark(start));
        }
        // From here on no node leaves: a node that has come back since does not leave again.
        self.seal(Sealing::Promise(0), |_| true);
        Ok(RelocatePhase::Count(start))
    }

    /// Chooses the era, above everything that is known on either side.
    fn counted(&mut self, start: Start) -> Next {
        self.check_left()?;
        let states = self.old.each(Reply::state);
        let known = states.iter().flatten().map(NodeState::highest);
        let era = era_after(known.chain(start.highest())).map_err(RelocateError::NotStarted)?;
        let longest = longest(&states).max(self.order.longest);
        if let Some(before) = self.old.of_majority(states) {
            self.reserve(era, &before);
            return Ok(RelocatePhase::Promise { before, era, start });
        }
        Ok(RelocatePhase::Start { start: start.go_on(era, longest, &mut self.new), era })
    }

    fn old_missing(&self) -> RelocateError {
        let (answered, needed) = (self.old.count(has_state), self.old.majority());
        RelocateError::OldMissing { answered, needed, faults: self.old.faults(has_state) }
    }

    /// Continues with the nodes that answer again in the same memory: all were sealed when this round began.
    fn promised(&mut self, before: &States, era: u64, start: Start) -> Next {
        let before = self.same_memory(before, 0)?;
        self.reserve(era, &before);
        Ok(RelocatePhase::Confirm { before, era, start })
    }

    /// Continues with the nodes that held the promise at one moment as well.
    fn confirmed(&mut self, before: &States, era: u64, start: Start) -> Next {
        let states = self.same_memory(before, era)?;
        Ok(RelocatePhase::Start { start: start.go_on(era, longest(&states), &mut self.new), era })
    }

    /// Returns the answers from the same memory as before that know of `era`, if they are a majority.
    fn same_memory(&self, before: &States, era: u64) -> Result<States, RelocateError> {
        let is_same = |a: &NodeState, b: &NodeState| (a.nonce, a.era) == (b.nonce, b.era);
        self.old.unchanged(before, era, is_same).ok_or_else(|| match self.old.faults(has_state).is_empty() {
            true => RelocateError::NotStarted(ReadmitError::Overtaken),
            false => self.old_missing(),
        })
    }

    fn started(&mut self, start: Start, era: u64) -> Next {
        let start = start.step(&mut self.new).map_err(RelocateError::NotStarted)?;
        Ok(if start.done().is_some() { self.sweep(era) } else { RelocatePhase::Start { start, era } })
    }
}

impl Machine for Relocate {
    type Outcome = Result<(), RelocateError>;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        let side = self.side();
        let (to, request) = self.round().next_request()?;
        Some((Address { side, ..to }, request))
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        let round = self.round();
        if !round.take(from, reply) || !round.is_over() {
            return;
        }
        let next = match self.phase.clone() {
            RelocatePhase::Look => self.looked(),
            RelocatePhase::Peek(era) => self.peeked(era),
            RelocatePhase::Seal => self.sealed(),
            RelocatePhase::Mark(start) => self.marked(start),
            RelocatePhase::Count(start) => self.counted(start),
            RelocatePhase::Promise { before, era, start } => self.promised(&before, era, start),
            RelocatePhase::Confirm { before, era, start } => self.confirmed(&before, era, start),
            RelocatePhase::Start { start, era } => self.started(start, era),
            RelocatePhase::Sweep => Ok(RelocatePhase::Done(Ok(()))),
            done @ RelocatePhase::Done(_) => Ok(done),
        };
        self.phase = next.unwrap_or_else(|error| RelocatePhase::Done(Err(error)));
    }

    fn outcome(&self, _: Time) -> Option<Result<(), RelocateError>> {
        if let RelocatePhase::Done(outcome) = &self.phase { Some(outcome.clone()) } else { None }
    }
}

fn has_state(reply: &Reply) -> bool {
    reply.state().is_some()
}
