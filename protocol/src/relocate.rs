use std::time::Duration;

use super::message::{Reply, Request, Sealing};
use super::readmit_error::ReadmitError;
use super::round::Round;
use super::start::{Beginning, Start};
use super::state::{Prepared, State};
use super::{Fault, Fleet, Nonce, Stamp, majority};

/// The order to move a fleet to another list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relocation {
    /// The list that the fleet leaves.
    pub old: Fleet,
    /// The list that starts.
    pub new: Fleet,
    /// 128 fresh random bits.
    pub nonce: Nonce,
    /// How long a lock may still be out that no node remembers.
    pub longest: Duration,
    /// Whether to go on although no majority of the old list remembers, because an operator has
    /// said that it is lost. The order of the tokens then rests on the nodes' clocks.
    pub lost: bool,
}

/// The list that a request goes to. Send it over a session of that fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The list that the fleet leaves.
    Old,
    /// The list that starts.
    New,
}

/// Why a fleet was not moved. Run the move again: it goes on from what has been done.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum MoveError {
    /// These nodes of the new list do not answer, and every one must.
    #[error("every node of the new list must answer, and some do not; try again when they do")]
    NewMissing(Vec<(usize, Fault)>),
    /// Too few nodes of the old list answer and remember.
    #[error("{} nodes of the old list must answer and remember; {sealed} do; try again", .needed)]
    OldMissing {
        /// How many have left for the new list.
        sealed: usize,
        /// How many are a majority.
        needed: usize,
        /// Why the others do not count.
        faults: Vec<(usize, Fault)>,
    },
    /// This node of that list belongs to a third fleet, or has left for one.
    #[error("{2}")]
    Elsewhere(Side, usize, Fault),
    /// Both lists are in use, each by itself: neither goes on where the other ends.
    #[error("both lists are in use, each as a fleet of its own: choose one of them")]
    BothInUse,
    /// The new list was not started.
    #[error("the new list was not started: {0}")]
    NotStarted(ReadmitError),
    /// Something changed meanwhile: try again.
    #[error("overtaken by another move or by a node that forgot; try again")]
    Overtaken,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    /// Looks how the new list stands.
    Look,
    /// Looks whether the old list was left: the new one has a majority in this era.
    Peek(u64),
    Seal,
    /// Marks the new nodes, and reads them.
    Mark(Start),
    /// Reads what the sealed nodes know. A node of both lists has its mark by now.
    Count(Start),
    /// Keeps what each sealed node of the old list answered, and the era.
    Promise(Vec<Option<State>>, u64, Start),
    Confirm(Vec<Option<State>>, u64, Start),
    Start(Start, u64),
    /// Seals members of the old list that came back late. The move is done.
    Sweep,
    Done(Result<(), MoveError>),
}

/// One move of a fleet to another list of nodes, as a state machine: protocol, "Moving a fleet".
///
/// You may interrupt it anywhere, run it again, and run it twice at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Move {
    order: Relocation,
    phase: Phase,
    old: Round,
    new: Round,
}

impl Move {
    /// Starts to move a fleet.
    #[must_use]
    pub fn new(order: Relocation) -> Move {
        let (old, new) = (order.old.members().count(), order.new.members().count());
        let mut moving =
            Move { order, phase: Phase::Look, old: Round::new(old), new: Round::new(new) };
        let look = Request::Prepare { nonce: moving.order.nonce, from: None };
        moving.new.ask_all(&look, None);
        moving
    }

    /// Returns what to send next, and to which node of which list.
    pub fn next_request(&mut self) -> Option<(Side, usize, Request)> {
        let (side, next) = match &mut self.phase {
            Phase::Start(start, _) | Phase::Mark(start) => (Side::New, start.next_request()),
            Phase::Look => (Side::New, self.new.next_request()),
            _ => (Side::Old, self.old.next_request()),
        };
        next.map(|(node, request)| (side, node, request))
    }

    /// Returns the number of the phase, which you give back with each reply.
    #[must_use]
    pub fn phase(&self) -> u8 {
        const STARTS: u8 = 16;
        match &self.phase {
            Phase::Start(start, _) | Phase::Mark(start) => STARTS + start.phase(),
            _ => self.old.number(),
        }
    }

    /// Returns how it ended, once it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), MoveError>> {
        match &self.phase {
            Phase::Done(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }

    /// Takes what a node answered to a request of `phase`, or why it did not.
    pub fn on_reply(&mut self, phase: u8, node: usize, reply: Result<Reply, Fault>) {
        if phase != self.phase() {
            return;
        }
        if let Phase::Start(start, _) | Phase::Mark(start) = &mut self.phase {
            start.on_reply(start.phase(), node, reply);
            let outcome = match start.outcome() {
                None => return self.marked(),
                Some(Ok(())) => return self.sweep(),
                Some(Err(ReadmitError::Overtaken)) => MoveError::Overtaken,
                Some(Err(ReadmitError::NotStarted(faults))) => MoveError::NewMissing(faults),
                Some(Err(ReadmitError::Elsewhere(node, fault))) => {
                    MoveError::Elsewhere(Side::New, node, fault)
                }
                Some(Err(error)) => MoveError::NotStarted(error),
            };
            self.phase = Phase::Done(Err(outcome));
            return;
        }
        let round = if self.phase == Phase::Look { &mut self.new } else { &mut self.old };
        let number = round.number();
        if !round.take(number, node, reply) || !round.is_over() {
            return;
        }
        let outcome = match self.phase.clone() {
            Phase::Look => self.looked(),
            Phase::Peek(era) => self.peeked(era),
            Phase::Seal => self.sealed(),
            Phase::Count(start) => self.counted(start),
            Phase::Promise(before, era, start) => self.promised(&before, era, start),
            Phase::Confirm(before, era, start) => self.confirmed(&before, era, start),
            Phase::Sweep => {
                self.phase = Phase::Done(Ok(()));
                Ok(())
            }
            Phase::Start(..) | Phase::Mark(_) | Phase::Done(_) => Ok(()),
        };
        if outcome.is_err() {
            self.phase = Phase::Done(outcome);
        }
    }

    fn needed(&self) -> usize {
        majority(self.old.nodes())
    }

    /// Checks, before anything is sealed, whether the new list can be started, or was.
    fn looked(&mut self) -> Result<(), MoveError> {
        let prepared = |reply: &Reply| match reply {
            Reply::Prepared(prepared) => Some(Some(prepared.clone())),
            // A node of the old list that has not been sealed yet.
            Reply::OtherFleet(fleet) if *fleet == self.order.old => Some(None),
            // A node that has left a list before.
            Reply::Moved(_) => Some(None),
            _ => None,
        };
        let faults = self.new.faults(prepared);
        if let Some((node, fault)) = elsewhere(&faults) {
            return Err(MoveError::Elsewhere(Side::New, node, fault));
        }
        if !faults.is_empty() {
            return Err(MoveError::NewMissing(faults));
        }
        let answers: Vec<Prepared> =
            self.new.each(prepared).into_iter().flatten().flatten().collect();
        let admitted = answers.iter().filter(|answer| answer.admitted).count();
        if admitted >= majority(self.new.nodes()) {
            let era = answers.iter().filter(|a| a.admitted).map(|a| a.state.era).max();
            self.phase = Phase::Peek(era.unwrap_or(0));
            self.old.ask_all(&Request::Read, None);
            return Ok(());
        }
        self.phase = Phase::Seal;
        self.seal(Sealing::Leave, |_| true);
        Ok(())
    }

    /// Ends the move if the new list, which has a majority already, goes on where the old one
    /// ended. If the old one goes on as well, that is an error.
    fn peeked(&mut self, era: u64) -> Result<(), MoveError> {
        let in_use = |reply: &Reply| matches!(reply, Reply::State(_)).then_some(());
        if self.old.each(in_use).into_iter().flatten().count() >= self.needed() {
            return Err(MoveError::BothInUse);
        }
        self.sweep_below(era);
        Ok(())
    }

    /// Seals the old list once more. A member may have come back to it while the others left, and
    /// would stay there for good. Those that have left may join other lists from now on. What
    /// they answer does not matter.
    fn sweep(&mut self) {
        let Phase::Start(_, era) = self.phase else { return };
        self.sweep_below(era);
    }

    fn sweep_below(&mut self, era: u64) {
        self.phase = Phase::Sweep;
        self.seal(Sealing::Done(era), |_| true);
    }

    fn seal(&mut self, step: Sealing, which: impl Fn(usize) -> bool) {
        let request = Request::Seal { to: self.order.new.clone(), step };
        let nodes = (0..self.old.nodes()).filter(|node| which(*node));
        self.old.ask(nodes.map(|node| (node, request.clone())).collect::<Vec<_>>());
    }

    fn sealed(&mut self) -> Result<(), MoveError> {
        self.check_left()?;
        self.phase = Phase::Mark(self.start());
        Ok(())
    }

    /// Checks that a majority has left, unless an operator has said that the list is lost.
    fn check_left(&self) -> Result<(), MoveError> {
        let left = self.old.each(sealed).into_iter().flatten().count();
        if left >= self.needed() || self.order.lost {
            return Ok(());
        }
        Err(match elsewhere(&self.old.faults(sealed)) {
            Some((node, fault)) => MoveError::Elsewhere(Side::Old, node, fault),
            None => self.old_missing(),
        })
    }

    fn marked(&mut self) {
        let Phase::Mark(start) = &self.phase else { return };
        if start.highest().is_some() {
            self.phase = Phase::Count(start.clone());
            // From here on no node leaves: a node that has come back since does not leave again.
            self.seal(Sealing::Promise(0), |_| true);
        }
    }

    /// Chooses the era, above everything that is known on either side.
    fn counted(&mut self, mut start: Start) -> Result<(), MoveError> {
        self.check_left()?;
        let states = self.old.each(sealed);
        let known = states.iter().flatten().map(State::highest);
        let highest = known.chain(start.highest()).max().unwrap_or(0);
        let era = highest.saturating_add(1);
        if era > Stamp::MAX_ERA {
            return Err(MoveError::NotStarted(ReadmitError::NoEra));
        }
        if states.iter().flatten().count() >= self.needed() {
            self.seal(Sealing::Promise(era), |node| states.get(node).is_some_and(Option::is_some));
            self.phase = Phase::Promise(states, era, start);
        } else {
            let out = states.iter().flatten().map(|state| state.longest);
            start.go_on(era, out.fold(self.order.longest, Duration::max));
            self.phase = Phase::Start(start, era);
        }
        Ok(())
    }

    fn old_missing(&self) -> MoveError {
        MoveError::OldMissing {
            sealed: self.old.each(sealed).into_iter().flatten().count(),
            needed: self.needed(),
            faults: self.old.faults(sealed),
        }
    }

    /// Goes on with those that answer a second time in the same memory: all of them were sealed
    /// at one moment, when this round began.
    fn promised(
        &mut self,
        before: &[Option<State>],
        era: u64,
        start: Start,
    ) -> Result<(), MoveError> {
        let states = self.same_memory(before, |_| true)?;
        self.seal(Sealing::Promise(era), |node| states.get(node).is_some_and(Option::is_some));
        self.phase = Phase::Confirm(states, era, start);
        Ok(())
    }

    /// Goes on with those that held the promise at one moment as well.
    fn confirmed(
        &mut self,
        before: &[Option<State>],
        era: u64,
        mut start: Start,
    ) -> Result<(), MoveError> {
        let states = self.same_memory(before, |state| state.highest() >= era)?;
        let out = states.iter().flatten().map(|state| state.longest).max().unwrap_or_default();
        start.go_on(era, out);
        self.phase = Phase::Start(start, era);
        Ok(())
    }

    /// Returns the answers of the nodes that answered before from the same memory, if they are a
    /// majority.
    fn same_memory(
        &self,
        before: &[Option<State>],
        holds: impl Fn(&State) -> bool,
    ) -> Result<Vec<Option<State>>, MoveError> {
        let now = self.old.each(sealed);
        let pairs = before.iter().zip(now);
        let states: Vec<Option<State>> = pairs
            .map(|(before, now)| {
                let same = before.as_ref().zip(now.as_ref());
                now.filter(|now| {
                    same.is_some_and(|(a, b)| a.nonce == b.nonce && a.era == b.era) && holds(now)
                })
            })
            .collect();
        if states.iter().flatten().count() >= self.needed() {
            return Ok(states);
        }
        let faults = self.old.faults(sealed);
        Err(if faults.is_empty() { MoveError::Overtaken } else { self.old_missing() })
    }

    fn start(&self) -> Start {
        let order = Beginning {
            nonce: self.order.nonce,
            longest: self.order.longest,
            strict: false,
            nothing_out: false,
            from: Some(self.order.old.clone()),
        };
        Start::new(self.new.nodes(), order)
    }
}

fn sealed(reply: &Reply) -> Option<State> {
    match reply {
        Reply::Sealed(state) => Some(*state),
        _ => None,
    }
}

/// Returns the first node that belongs to another fleet, and which one that is.
fn elsewhere(faults: &[(usize, Fault)]) -> Option<(usize, Fault)> {
    let other = |fault: &Fault| matches!(fault, Fault::OtherFleet { .. } | Fault::Moved { .. });
    faults.iter().find(|(_, fault)| other(fault)).cloned()
}
