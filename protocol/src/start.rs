use std::time::Duration;

use super::message::{Prepared, Reply, Request};
use super::round::{ReadmitError, Round, StartOrder, era_after};
use super::{Fault, Fleet, Nonce};

/// The phase of a start, with the earlier answers of each node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum StartPhase {
    /// Marks each memory.
    Mark,
    /// Reads what the marked nodes know.
    Look(Vec<Prepared>),
    /// Waits until the move has chosen the era.
    Wait(Vec<Prepared>),
    /// Has the nodes promise the era.
    Promise { before: Vec<Prepared>, era: u64 },
    /// Checks that they may count in it. Keeps the memory in which each node has promised the era.
    Confirm { before: Vec<Prepared>, era: u64, promised: Vec<Option<Nonce>> },
    /// Admits the nodes.
    Activate { quarantine: Duration },
    /// A majority is active.
    Done { quarantine: Duration },
}

/// The start of a fleet in which too few nodes remember: protocol, "Too few remember".
///
/// Every node must answer. The start marks each memory first, and takes an era above everything that
/// it reads after that. Before any node counts in it, a majority must hold its promise at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Start {
    order: StartOrder,
    /// The fleet that moves here, if one does. Its move chooses the era.
    from: Option<Fleet>,
    phase: StartPhase,
}

type Next = Result<StartPhase, ReadmitError>;

/// The rounds of a start are numbered above this, and those of the machine that starts below: answers do not mix.
const STARTS: u8 = 16;

impl Start {
    /// Asks the nodes first.
    pub(super) fn new(order: StartOrder, from: Option<Fleet>, round: &mut Round) -> Start {
        round.number = STARTS;
        let start = Start { order, from, phase: StartPhase::Mark };
        start.prepare(1, round);
        start
    }

    /// Returns the quarantine of the fleet, once it is started.
    pub(super) fn done(&self) -> Option<Duration> {
        if let StartPhase::Done { quarantine } = self.phase { Some(quarantine) } else { None }
    }

    /// Reports whether the era is about to be promised by nodes that may belong to another list.
    pub(super) fn may_be_of_others(&self) -> bool {
        let StartPhase::Promise { before, .. } = &self.phase else { return false };
        !self.order.assume_no_locks && all_blank(before)
    }

    /// Takes the next step after a round.
    pub(super) fn step(self, round: &mut Round) -> Result<Start, ReadmitError> {
        let phase = match self.phase.clone() {
            StartPhase::Mark => {
                let answers = answers(round)?;
                self.prepare(2, round);
                StartPhase::Look(answers)
            }
            StartPhase::Look(before) => self.looked(&before, round)?,
            StartPhase::Promise { before, era } => {
                let promised = round.each(Reply::promise);
                self.prepare(3, round);
                StartPhase::Confirm { before, era, promised }
            }
            StartPhase::Confirm { before, era, promised } => self.confirmed(&before, era, &promised, round)?,
            StartPhase::Activate { quarantine } => activated(quarantine, round)?,
            waits @ (StartPhase::Wait(_) | StartPhase::Done { .. }) => waits,
        };
        Ok(Start { phase, ..self })
    }

    /// Asks every node, with a nonce of this round's own: the same nonce could mark two stretches
    /// of memory if it were sent again.
    fn prepare(&self, number: u128, round: &mut Round) {
        let nonce = Nonce(self.order.nonce.0.wrapping_add(number));
        // Nodes that have left a fleet join when they are marked, and only then.
        let from = self.from.clone().filter(|_| number == 1);
        round.ask_those(&Request::Prepare { nonce, from }, |_| true);
    }

    /// Returns the largest era that the marked nodes showed, once it waits for the move.
    pub(super) fn highest(&self) -> Option<u64> {
        if let StartPhase::Wait(answers) = &self.phase { Some(highest(answers)) } else { None }
    }

    /// Continues with the era of the move. `longest` is how long locks of the old list may be held.
    pub(super) fn go_on(mut self, era: u64, longest: Duration, round: &mut Round) -> Start {
        self.order.longest = longest;
        if let StartPhase::Wait(answers) = self.phase {
            self.phase = promise(answers, era, round);
        }
        self
    }

    /// Chooses the era, above all that is read after every memory was marked. If another client started
    /// a node, which forgot before it was marked, other nodes show the promise of that era.
    fn looked(&self, before: &[Prepared], round: &mut Round) -> Next {
        let answers = answers(round)?;
        if !same_memory(before, &answers) {
            return Err(ReadmitError::Overtaken);
        }
        let admitted = answers.iter().filter(|answer| answer.admitted).count();
        if admitted == answers.len() && self.from.is_none() {
            return Ok(StartPhase::Done { quarantine: Duration::ZERO });
        }
        if admitted >= round.majority() {
            return Err(ReadmitError::Overtaken);
        }
        // Only an operator starts nodes that carry traces of another fleet, by a move.
        let mut others = answers.iter().map(|answer| answer.other.as_ref()).enumerate();
        if self.from.is_none()
            && let Some((node, Some(fleet))) = others.find(|(_, other)| other.is_some())
        {
            let fault = Fault::OtherFleet { members: fleet.names() };
            return Err(ReadmitError::Elsewhere(node, fault));
        }
        if self.order.strict && !(all_blank(&answers) && self.order.assume_no_locks) {
            return Err(ReadmitError::Strict);
        }
        if self.from.is_some() {
            return Ok(StartPhase::Wait(answers));
        }
        let era = era_after([highest(&answers)])?;
        Ok(promise(answers, era, round))
    }

    /// Checks that the era may be used. The answers of one round come from different moments. But a node that had
    /// forgotten in both rounds, in the same memory, had forgotten when the second round began. An era that no node has
    /// promised before may be used only if no majority remembered at that moment. And a node that still has its promise
    /// in the same memory had it when this round began.
    fn confirmed(&self, before: &[Prepared], era: u64, promised: &[Option<Nonce>], round: &mut Round) -> Next {
        let (answers, needed) = (answers(round)?, round.majority());
        let pairs = || before.iter().zip(&answers);
        let remembering = pairs().filter(|(first, second)| first.admitted || second.admitted);
        let holds = |(answer, promise): &(&Prepared, &Option<Nonce>)| {
            **promise == Some(answer.state.nonce) && answer.state.highest() >= era
        };
        let holding = answers.iter().zip(promised).filter(holds).count();
        if !same_memory(before, &answers) || remembering.count() >= needed || holding < needed {
            return Err(ReadmitError::Overtaken);
        }
        let quarantine = self.quarantine(&answers, era);
        let new = self.from.is_none() && all_blank(&answers);
        let activate = |answer: &Prepared| {
            let (nonce, collect) = (answer.state.nonce, false);
            Request::Activate { nonce, era, collect, quarantine, new }
        };
        round.ask(answers.iter().map(activate).enumerate().collect::<Vec<_>>());
        Ok(StartPhase::Activate { quarantine })
    }

    /// Returns the quarantine: until locks that no node remembers have expired, and the clocks have passed the era, so
    /// that the next start takes another one if the fleet forgets everything again.
    fn quarantine(&self, answers: &[Prepared], era: u64) -> Duration {
        let clock = answers.iter().map(|answer| answer.clock).max().unwrap_or_default();
        let second = Duration::from_secs(era.saturating_add(1)).saturating_sub(clock);
        let written = answers.iter().map(|answer| answer.state.longest).max().unwrap_or_default();
        let forgotten = if self.from.is_some() || !all_blank(answers) {
            self.order.longest
        } else if self.order.assume_no_locks {
            Duration::ZERO
        } else {
            // A blank node need not be new: by a restart a server forgets what it granted before.
            let youngest = answers.iter().map(|answer| answer.uptime).min().unwrap_or_default();
            self.order.longest.saturating_sub(youngest)
        };
        written.max(forgotten).max(second.min(Duration::from_secs(1)))
    }
}

fn answers(round: &Round) -> Result<Vec<Prepared>, ReadmitError> {
    let answers: Option<Vec<Prepared>> = round.each(Reply::prepared).into_iter().collect();
    let is_prepared = |reply: &Reply| matches!(reply, Reply::Prepared(_));
    answers.ok_or_else(|| round.failure(is_prepared, ReadmitError::NotStarted))
}

fn promise(before: Vec<Prepared>, era: u64, round: &mut Round) -> StartPhase {
    let reserve = |answer: &Prepared| Request::Reserve { era, memory: Some(answer.state.nonce) };
    round.ask(before.iter().map(reserve).enumerate().collect::<Vec<_>>());
    StartPhase::Promise { before, era }
}

/// Ends the start once a majority is active. The others are brought back one by one.
fn activated(quarantine: Duration, round: &Round) -> Next {
    let is_active = |reply: &Reply| *reply == Reply::Activated;
    if round.count(is_active) >= round.majority() {
        return Ok(StartPhase::Done { quarantine });
    }
    if round.count(|reply| *reply == Reply::Forgotten) > 0 {
        return Err(ReadmitError::Overtaken);
    }
    Err(ReadmitError::NotStarted(round.faults(is_active)))
}

fn all_blank(answers: &[Prepared]) -> bool {
    answers.iter().all(|answer| answer.blank)
}

/// Returns whether no node has forgotten in between, nor left and come back.
fn same_memory(before: &[Prepared], now: &[Prepared]) -> bool {
    let same = |(before, now): (&Prepared, &Prepared)| {
        before.state.nonce == now.state.nonce && (before.admitted || now.admitted || before.state.era == now.state.era)
    };
    before.iter().zip(now).all(same)
}

/// Returns the largest era of the nodes, stored or by clock. The one that begins is above it, and not below any clock.
fn highest(answers: &[Prepared]) -> u64 {
    let clock = |answer: &Prepared| answer.clock.as_secs().saturating_sub(1);
    answers.iter().map(|it| it.state.highest().max(clock(it))).max().unwrap_or(0)
}
