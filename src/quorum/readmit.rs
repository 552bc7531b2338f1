use std::collections::VecDeque;
use std::time::Duration;

use super::acquire::fault_of;
use super::message::{Prepared, Reply, Request, State};
use super::{Fault, Nonce, Stamp, majority};

/// What a re-admission is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Readmission {
    /// The number of the node that is to come back, or whose counts are to be collected.
    pub target: usize,
    /// Whether its counts are to be collected though it is admitted.
    pub collect: bool,
    /// 128 fresh random bits.
    pub nonce: Nonce,
    /// The longest TTL that this client uses, lock delay included.
    pub longest: Duration,
    /// Refuse to lean on clocks, except where every node is blank.
    pub strict: bool,
}

/// Why a node was not re-admitted. Nothing is lost: anybody may try again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReadmitError {
    /// A majority must remember, or every node must answer.
    #[error("too few nodes remember, and not every node answers")]
    Missing(Vec<(usize, Fault)>),
    /// Too few remember, and the first start from clocks was ruled out.
    #[error("too few nodes remember, and `strict` leaves that to the operator")]
    Strict,
    /// The eras have run out.
    #[error("no era left")]
    NoEra,
    /// Something changed underneath: try again.
    #[error("overtaken by another re-admission or by a node that forgot")]
    Overtaken,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Prepare,
    Read(Prepared),
    Reserve(Prepared, u64, Duration),
    FirstStart,
    /// What every node answered before.
    Confirm(Vec<Prepared>),
    Activate,
    Done(Result<(), ReadmitError>),
}

/// One re-admission, as a state machine: protocol, "Re-admission (era)".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Readmit {
    order: Readmission,
    phase: Phase,
    /// This phase's answers, by node; `None` where none is awaited or it is still out.
    replies: Vec<Option<Result<Reply, Fault>>>,
    awaited: usize,
    outbox: VecDeque<(usize, Request)>,
}

impl Readmit {
    /// Starts a re-admission among `nodes` nodes.
    #[must_use]
    pub fn new(nodes: usize, order: Readmission) -> Readmit {
        let mut readmit = Readmit {
            order,
            phase: Phase::Prepare,
            replies: vec![None; nodes],
            awaited: 0,
            outbox: VecDeque::new(),
        };
        let prepare = Request::Prepare { nonce: order.nonce };
        readmit.enter(Phase::Prepare, vec![(order.target, prepare)]);
        readmit
    }

    /// What to send next, and to which node. Replies to requests of an earlier phase
    /// must not be fed: [`phase`](Readmit::phase) tells them apart.
    pub fn next_request(&mut self) -> Option<(usize, Request)> {
        self.outbox.pop_front()
    }

    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), ReadmitError>> {
        match &self.phase {
            Phase::Done(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }

    /// The number of the phase, to be given back with each reply.
    #[must_use]
    pub fn phase(&self) -> u8 {
        match self.phase {
            Phase::Prepare => 0,
            Phase::Read(_) => 1,
            Phase::Reserve(..) => 2,
            Phase::FirstStart => 3,
            Phase::Confirm(_) => 4,
            Phase::Activate => 5,
            Phase::Done(_) => 6,
        }
    }

    /// Takes what a node answered to a request of `phase`, or why it did not.
    pub fn on_reply(&mut self, phase: u8, node: usize, reply: Result<Reply, Fault>) {
        if phase != self.phase() {
            return;
        }
        let Some(slot @ None) = self.replies.get_mut(node) else { return };
        *slot = Some(reply);
        self.awaited = self.awaited.saturating_sub(1);
        match self.phase.clone() {
            Phase::Prepare => self.prepared(),
            Phase::Read(prepared) => self.read(prepared),
            Phase::Reserve(prepared, era, longest) => self.reserved(&prepared, era, longest),
            Phase::FirstStart => self.first_start(),
            Phase::Confirm(before) => self.confirmed(&before),
            Phase::Activate => self.activated(),
            Phase::Done(_) => {}
        }
    }

    fn enter(&mut self, phase: Phase, requests: Vec<(usize, Request)>) {
        self.phase = phase;
        self.replies.fill(None);
        self.awaited = requests.len();
        self.outbox = requests.into();
    }

    fn end(&mut self, outcome: Result<(), ReadmitError>) {
        self.enter(Phase::Done(outcome), Vec::new());
    }

    fn others(&self, request: &Request) -> Vec<(usize, Request)> {
        let nodes = (0..self.replies.len()).filter(|node| *node != self.order.target);
        nodes.map(|node| (node, request.clone())).collect()
    }

    fn faults(&self) -> Vec<(usize, Fault)> {
        let fault = |reply: &Option<Result<Reply, Fault>>| match reply {
            Some(Err(fault)) => Some(fault.clone()),
            _ => None,
        };
        let replies = self.replies.iter().enumerate();
        replies.filter_map(|(node, reply)| Some((node, fault(reply)?))).collect()
    }

    fn missing(&mut self) {
        let faults = self.faults();
        self.end(Err(ReadmitError::Missing(faults)));
    }

    fn prepared(&mut self) {
        let reply = self.replies.get_mut(self.order.target).and_then(Option::take);
        match reply {
            Some(Ok(Reply::Prepared(prepared))) if prepared.admitted && !self.order.collect => {
                self.end(Ok(()));
            }
            Some(Ok(Reply::Prepared(prepared))) if self.replies.len() == 1 => {
                self.replies = vec![Some(Ok(Reply::Prepared(prepared)))];
                self.phase = Phase::FirstStart;
                self.first_start();
            }
            Some(Ok(Reply::Prepared(prepared))) => {
                let requests = self.others(&Request::Read);
                self.enter(Phase::Read(prepared), requests);
            }
            Some(other) => {
                let fault = (self.order.target, fault_of(other));
                self.end(Err(ReadmitError::Missing(vec![fault])));
            }
            None => {}
        }
    }

    fn read(&mut self, prepared: Prepared) {
        let states: Vec<State> = self
            .replies
            .iter()
            .filter_map(|reply| match reply {
                Some(Ok(Reply::State(state))) => Some(*state),
                _ => None,
            })
            .collect();
        if states.len() >= majority(self.replies.len()) {
            let known = states.iter().chain([&prepared.state]);
            let highest = known.clone().map(|s| s.era.max(s.reserved)).max().unwrap_or(0);
            let longest = known.map(|s| s.longest).fold(self.order.longest, Duration::max);
            let era = highest.saturating_add(1);
            if era > Stamp::MAX_ERA {
                return self.end(Err(ReadmitError::NoEra));
            }
            let requests = self.others(&Request::Reserve { era });
            self.enter(Phase::Reserve(prepared, era, longest), requests);
        } else if self.awaited == 0 {
            let answered = |reply: &&Option<Result<Reply, Fault>>| {
                matches!(reply, Some(Ok(Reply::State(_) | Reply::NotAdmitted)))
            };
            if self.replies.iter().filter(answered).count() + 1 < self.replies.len() {
                return self.missing();
            }
            let prepares = self.prepares(1);
            self.enter(Phase::FirstStart, prepares);
        }
    }

    /// The era must be promised by a majority before it is used.
    fn reserved(&mut self, prepared: &Prepared, era: u64, longest: Duration) {
        let promised =
            self.replies.iter().filter(|reply| **reply == Some(Ok(Reply::Reserved))).count();
        if promised >= majority(self.replies.len()) {
            let request = Request::Activate {
                incarnation: prepared.incarnation.clone(),
                nonce: prepared.nonce,
                era,
                quarantine: longest,
                settle: Duration::ZERO,
            };
            self.enter(Phase::Activate, vec![(self.order.target, request)]);
        } else if self.awaited == 0 {
            self.missing();
        }
    }

    /// One to every node, with a nonce of its own: a nonce that is sent again could mark
    /// two stretches of memory.
    fn prepares(&self, round: u128) -> Vec<(usize, Request)> {
        let nonce = Nonce(self.order.nonce.0.wrapping_add(round));
        (0..self.replies.len()).map(|node| (node, Request::Prepare { nonce })).collect()
    }

    /// What every node answered, or `None` and the end if one did not.
    fn all_prepared(&mut self) -> Option<Vec<Prepared>> {
        let answers = self.replies.iter().map(|reply| match reply {
            Some(Ok(Reply::Prepared(prepared))) => Some(prepared.clone()),
            _ => None,
        });
        let answers: Option<Vec<Prepared>> = answers.collect();
        if answers.is_none() {
            self.missing();
        }
        answers
    }

    /// Too few remember, it seems: every node must answer.
    fn first_start(&mut self) {
        if self.awaited > 0 {
            return;
        }
        let Some(answers) = self.all_prepared() else { return };
        let nodes = answers.len();
        let admitted = answers.iter().filter(|answer| answer.admitted).count();
        if !self.order.collect && admitted == nodes {
            self.end(Ok(()));
        } else if nodes > 2 && admitted >= majority(nodes) {
            self.end(Err(ReadmitError::Overtaken));
        } else if nodes > 2 {
            let prepares = self.prepares(2);
            self.enter(Phase::Confirm(answers), prepares);
        } else {
            self.start(answers);
        }
    }

    /// The first answers are not of one moment. A node that had forgotten in both rounds,
    /// in one stretch of memory, had forgotten when the second began: only where a majority
    /// did may an era be used that no majority has promised.
    fn confirmed(&mut self, before: &[Prepared]) {
        if self.awaited > 0 {
            return;
        }
        let Some(answers) = self.all_prepared() else { return };
        let nodes = answers.len();
        let rounds = before.iter().zip(&answers);
        let forgotten = rounds.filter(|(first, second)| {
            !first.admitted && !second.admitted && first.nonce == second.nonce
        });
        if nodes - forgotten.count() >= majority(nodes) {
            return self.end(Err(ReadmitError::Overtaken));
        }
        self.start(answers);
    }

    /// The era comes from the clocks.
    fn start(&mut self, answers: Vec<Prepared>) {
        let nodes = answers.len();
        let admitted = answers.iter().filter(|answer| answer.admitted).count();
        let blank = answers.iter().all(|answer| answer.blank);
        if self.order.strict && !blank && admitted < nodes {
            return self.end(Err(ReadmitError::Strict));
        }
        let clock = answers.iter().map(|answer| answer.clock).max().unwrap_or_default();
        let highest = answers.iter().map(|a| a.state.era.max(a.state.reserved)).max().unwrap_or(0);
        let era = clock.as_secs().max(highest.saturating_add(1));
        if era > Stamp::MAX_ERA {
            return self.end(Err(ReadmitError::NoEra));
        }
        let longest = answers
            .iter()
            .map(|answer| answer.state.longest)
            .fold(self.order.longest, Duration::max);
        let second = Duration::from_secs(1);
        let over = Duration::from_secs(era.saturating_add(1));
        let requests = answers.into_iter().enumerate().map(|(node, answer)| {
            let request = Request::Activate {
                incarnation: answer.incarnation,
                nonce: answer.nonce,
                era,
                quarantine: if blank { Duration::ZERO } else { longest },
                settle: over.saturating_sub(clock).min(second),
            };
            (node, request)
        });
        let requests = requests.collect();
        self.enter(Phase::Activate, requests);
    }

    fn activated(&mut self) {
        if self.awaited > 0 {
            return;
        }
        match self.replies.get(self.order.target) {
            Some(Some(Ok(Reply::Activated))) => self.end(Ok(())),
            Some(Some(Ok(Reply::Forgotten))) => self.end(Err(ReadmitError::Overtaken)),
            _ => self.missing(),
        }
    }
}
