use std::time::Duration;

use super::message::{Reply, Request};
use super::readmit_error::ReadmitError;
use super::round::Round;
use super::state::Prepared;
use super::{Fault, Fleet, Nonce, Stamp, majority};

/// The order for the start of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Beginning {
    /// 128 fresh random bits.
    pub(super) nonce: Nonce,
    /// The longest TTL that this client uses, lock delay included.
    pub(super) longest: Duration,
    /// Whether to refuse a start that leans on clocks, unless `nothing_out`.
    pub(super) strict: bool,
    /// Whether an operator has said that no lock can be out if all nodes are blank.
    pub(super) nothing_out: bool,
    /// The fleet that moves here, if one does. Its move chooses the era.
    pub(super) from: Option<Fleet>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Mark,
    /// Keeps what each node answered before, as the phases below do.
    Look(Vec<Prepared>),
    /// Waits until the move has chosen the era.
    Wait(Vec<Prepared>),
    /// Keeps the era, too.
    Promise(Vec<Prepared>, u64),
    /// Keeps which nodes have promised, too.
    Confirm(Vec<Prepared>, u64, Vec<bool>),
    Activate,
    Done(Result<(), ReadmitError>),
}

/// The start of a fleet in which too few nodes remember: protocol, "Too few remember".
///
/// Every node must answer. The start marks each memory first. It takes an era above everything
/// that it reads after that. A majority must hold the promise of that era at one moment before
/// any node counts in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Start {
    order: Beginning,
    phase: Phase,
    round: Round,
}

impl Start {
    pub(super) fn new(nodes: usize, order: Beginning) -> Start {
        let mut start = Start { order, phase: Phase::Mark, round: Round::new(nodes) };
        start.prepare(1);
        start
    }

    pub(super) fn next_request(&mut self) -> Option<(usize, Request)> {
        self.round.next_request()
    }

    pub(super) fn phase(&self) -> u8 {
        self.round.number()
    }

    pub(super) fn outcome(&self) -> Option<Result<(), ReadmitError>> {
        match &self.phase {
            Phase::Done(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }

    pub(super) fn on_reply(&mut self, phase: u8, node: usize, reply: Result<Reply, Fault>) {
        if !self.round.take(phase, node, reply) || !self.round.is_over() {
            return;
        }
        let outcome = match self.phase.clone() {
            Phase::Mark => self.marked(),
            Phase::Look(before) => self.looked(&before),
            Phase::Promise(before, era) => {
                let reserved =
                    |reply: &Reply| matches!(reply, Reply::Reserved { .. }).then_some(());
                let promised = self.round.each(reserved).iter().map(Option::is_some).collect();
                self.phase = Phase::Confirm(before, era, promised);
                self.prepare(3);
                Ok(())
            }
            Phase::Confirm(before, era, promised) => self.confirmed(&before, era, &promised),
            Phase::Activate => self.activated(),
            Phase::Wait(_) | Phase::Done(_) => Ok(()),
        };
        if outcome.is_err() {
            self.phase = Phase::Done(outcome);
        }
    }

    /// Asks every node, with a nonce of this round's own: the same nonce could mark two stretches
    /// of memory if it were sent again.
    fn prepare(&mut self, round: u128) {
        let nonce = Nonce(self.order.nonce.0.wrapping_add(round));
        // Nodes that have left a fleet join when they are marked, and only then.
        let from = self.order.from.clone().filter(|_| round == 1);
        self.round.ask_all(&Request::Prepare { nonce, from }, None);
    }

    /// Returns what every node answered.
    fn answers(&self) -> Result<Vec<Prepared>, ReadmitError> {
        let prepared = |reply: &Reply| match reply {
            Reply::Prepared(prepared) => Some(prepared.clone()),
            _ => None,
        };
        if let Some((node, fault)) = self.round.elsewhere() {
            return Err(ReadmitError::Elsewhere(node, fault));
        }
        let answers: Option<Vec<Prepared>> = self.round.each(prepared).into_iter().collect();
        answers.ok_or_else(|| ReadmitError::NotStarted(self.round.faults(prepared)))
    }

    fn marked(&mut self) -> Result<(), ReadmitError> {
        let answers = self.answers()?;
        self.phase = Phase::Look(answers);
        self.prepare(2);
        Ok(())
    }

    /// Returns the largest era that the nodes showed after they were marked, by clock or in
    /// writing, once it waits for the move.
    pub(super) fn highest(&self) -> Option<u64> {
        match &self.phase {
            Phase::Wait(answers) => Some(highest(answers)),
            _ => None,
        }
    }

    /// Goes on with the era that the move has chosen. `longest` is how long locks of the old
    /// list may still be out.
    pub(super) fn go_on(&mut self, era: u64, longest: Duration) {
        self.order.longest = longest;
        if let Phase::Wait(answers) = self.phase.clone() {
            self.promise(answers, era);
        }
    }

    fn promise(&mut self, answers: Vec<Prepared>, era: u64) {
        let requests = answers.iter().enumerate().map(|(node, answer)| {
            (node, Request::Reserve { era, memory: Some(answer.state.nonce) })
        });
        let requests: Vec<_> = requests.collect();
        self.phase = Phase::Promise(answers, era);
        self.round.ask(requests);
    }

    /// Chooses the era, above all that is read after every memory was marked. If another client
    /// started a node, which forgot before it was marked, other nodes show the promise of that
    /// era.
    fn looked(&mut self, before: &[Prepared]) -> Result<(), ReadmitError> {
        let answers = self.answers()?;
        if !same_memory(before, &answers) {
            return Err(ReadmitError::Overtaken);
        }
        let admitted = answers.iter().filter(|answer| answer.admitted).count();
        if admitted == answers.len() && self.order.from.is_none() {
            self.phase = Phase::Done(Ok(()));
            return Ok(());
        }
        if admitted >= majority(answers.len()) {
            return Err(ReadmitError::Overtaken);
        }
        self.check_fleet(&answers)?;
        let blank = answers.iter().all(|answer| answer.blank);
        if self.order.strict && !(blank && self.order.nothing_out) {
            return Err(ReadmitError::Strict);
        }
        if self.order.from.is_some() {
            self.phase = Phase::Wait(answers);
            return Ok(());
        }
        let era = highest(&answers).saturating_add(1);
        if era > Stamp::MAX_ERA {
            return Err(ReadmitError::NoEra);
        }
        self.promise(answers, era);
        Ok(())
    }

    /// Refuses nodes that carry traces of another fleet: only an operator starts these, by a
    /// move.
    fn check_fleet(&self, answers: &[Prepared]) -> Result<(), ReadmitError> {
        let mut others = answers.iter().enumerate();
        let other = others.find_map(|(node, answer)| Some((node, answer.other.as_ref()?)));
        match other.filter(|_| self.order.from.is_none()) {
            Some((node, fleet)) => {
                let members = fleet.members().map(str::to_owned).collect();
                Err(ReadmitError::Elsewhere(node, Fault::OtherFleet { members }))
            }
            None => Ok(()),
        }
    }

    /// Checks that the era may be used. The answers of a round are not of one moment. A node
    /// that had forgotten in both rounds, in one stretch of memory, had forgotten when the second
    /// round began. Only where so many had forgotten that no majority remembers may an era be
    /// used that no node has promised before. And a node that has promised, and still has the
    /// promise in that memory, held it when this round began.
    fn confirmed(
        &mut self,
        before: &[Prepared],
        era: u64,
        promised: &[bool],
    ) -> Result<(), ReadmitError> {
        let answers = self.answers()?;
        let nodes = answers.len();
        let forgot = |(first, second): &(&Prepared, &Prepared)| !first.admitted && !second.admitted;
        let forgotten = before.iter().zip(&answers).filter(forgot).count();
        let holds =
            |(answer, promised): &(&Prepared, &bool)| **promised && answer.state.highest() >= era;
        let holding = answers.iter().zip(promised).filter(holds).count();
        if !same_memory(before, &answers)
            || nodes - forgotten >= majority(nodes)
            || holding < majority(nodes)
        {
            return Err(ReadmitError::Overtaken);
        }
        let requests = self.activations(&answers, era);
        self.phase = Phase::Activate;
        self.round.ask(requests);
        Ok(())
    }

    fn activations(&self, answers: &[Prepared], era: u64) -> Vec<(usize, Request)> {
        let clock = answers.iter().map(|answer| answer.clock).max().unwrap_or_default();
        // The clocks pass the era before it counts: if the fleet forgets everything again, the
        // next start takes another one.
        let second = Duration::from_secs(era.saturating_add(1)).saturating_sub(clock);
        let settled = second.min(Duration::from_secs(1));
        let quarantine = self.quarantine(answers).max(settled);
        let new = self.order.from.is_none() && answers.iter().all(|answer| answer.blank);
        let request = |(node, answer): (usize, &Prepared)| {
            let request = Request::Activate {
                incarnation: answer.incarnation.clone(),
                nonce: answer.state.nonce,
                era,
                collect: false,
                quarantine,
                new,
            };
            (node, request)
        };
        answers.iter().enumerate().map(request).collect()
    }

    /// Returns how long locks that no node remembers may still be out.
    fn quarantine(&self, answers: &[Prepared]) -> Duration {
        let written = answers.iter().map(|answer| answer.state.longest).max().unwrap_or_default();
        let all_blank = answers.iter().all(|answer| answer.blank);
        if self.order.from.is_some() || !all_blank {
            return written.max(self.order.longest);
        }
        if self.order.nothing_out {
            return written;
        }
        // A blank node need not be new: by a restart a server forgets what it granted before.
        let youngest = answers.iter().map(|answer| answer.uptime).min().unwrap_or_default();
        written.max(self.order.longest.saturating_sub(youngest))
    }

    /// Ends the start once a majority is active. The others are brought back one by one.
    fn activated(&mut self) -> Result<(), ReadmitError> {
        let activated = |reply: &Reply| matches!(reply, Reply::Activated).then_some(());
        let count = self.round.each(activated).into_iter().flatten().count();
        if count >= majority(self.round.nodes()) {
            self.phase = Phase::Done(Ok(()));
            return Ok(());
        }
        let forgotten = |reply: &Reply| matches!(reply, Reply::Forgotten).then_some(());
        if self.round.each(forgotten).into_iter().flatten().count() > 0 {
            return Err(ReadmitError::Overtaken);
        }
        Err(ReadmitError::NotStarted(self.round.faults(activated)))
    }
}

/// Returns whether no node has forgotten in between, nor left and come back.
fn same_memory(before: &[Prepared], now: &[Prepared]) -> bool {
    let same = |(before, now): (&Prepared, &Prepared)| {
        before.state.nonce == now.state.nonce
            && (before.admitted || now.admitted || before.state.era == now.state.era)
    };
    before.iter().zip(now).all(same)
}

/// Returns the largest era that the nodes show, in writing or by clock. The one that begins is
/// above it, and not below any clock.
fn highest(answers: &[Prepared]) -> u64 {
    let shown = answers
        .iter()
        .map(|answer| answer.state.highest().max(answer.clock.as_secs().saturating_sub(1)));
    shown.max().unwrap_or(0)
}
