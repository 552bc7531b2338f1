//! The seam: every step of the model that is not bookkeeping is a call of `protocol`
//! from here. Rules are switched off here too, so that the library has no switch.

use fencing_protocol::{
    Acquire, Address, Attempt, Machine, Mode, NonEmpty, Nonce, Readmission, Readmit, Renew,
    Renewed, Reply, Request, Store, Time, Token, majority,
};

use crate::machine::AnyMachine;
use crate::model::mutant::Mutant;
use crate::model::node::{TTL, ask, attempt, count_once, owner, resource, run_out, token_of};
use crate::model::pool::{Id, Memo, Pool};

/// The numbers of the phases of a re-admission, and from where on those of a start are.
pub const PREPARE: u8 = 1;
pub const READ: u8 = 2;
pub const CONFIRM: u8 = 4;
pub const STARTS: u8 = 16;
pub const START_CONFIRM: u8 = STARTS + 4;

/// Requests of one machine: node, the machine's phase when it sent it, request.
pub type Sends = Vec<(u8, u8, Id)>;

/// What a machine became after a reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fed {
    pub machine: Id,
    /// In `Seam::sends`; zero for none.
    pub sends: Id,
    /// The token if the attempt is won; one if the re-admission succeeded.
    pub won: u32,
}

/// Where a machine came from, to replay its history with the nodes renumbered.
#[derive(Clone, Copy)]
enum Origin {
    Attempt,
    Order { who: u8, target: u8, collect: bool },
    Fed { parent: Id, node: u8, phase: u8, reply: Id },
}

/// What happens to a node's store without a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    LockVanishes,
    /// The part of this client in a shared lock.
    PartVanishes(u8),
    Forgets,
    /// Another resource's count runs out on a node in this life.
    RunsOut(u8),
    /// This many grants are counted on a node in this life.
    Counts(u8, u64),
}

#[derive(Default)]
pub struct Seam {
    pub nodes: usize,
    pub mutant: Option<Mutant>,
    /// Which clients share the lock: one bit for each.
    pub shared: u8,
    pub stores: Pool<Store>,
    pub requests: Pool<Request>,
    pub replies: Pool<Reply>,
    pub sends: Pool<Sends>,
    machines: Pool<AnyMachine>,
    begun: Memo<u8, (Id, Id)>,
    ordered: Memo<(u8, u8, bool), (Id, Id)>,
    renewals: Memo<(u8, u32), Id>,
    renewed: Memo<(u8, u32, u32), bool>,
    changes: Memo<(Id, Change), Id>,
    answers: Memo<(Id, u8, u8, Id), (Id, Id)>,
    fed: Memo<(Id, u8, u8, Id), Fed>,
    origins: Memo<Id, Origin>,
    moved: Memo<(Id, u32), Id>,
}

impl Seam {
    pub fn new(nodes: usize, mutant: Option<Mutant>) -> Seam {
        Seam { nodes, mutant, ..Seam::default() }
    }

    /// The real node answers: the store afterwards, and the reply.
    pub fn answer(&self, store: Id, life: u8, second: u8, request: Id) -> (Id, Id) {
        self.answers.get((store, life, second, request), || {
            let mut store = self.stores.get(store);
            let request = self.requests.get(request);
            let reply = match self.mutant {
                Some(mutant) => mutant.answer(&mut store, life, second, &request),
                None => ask(&mut store, life, second, &request),
            };
            (self.stores.id(&store), self.replies.id(&reply))
        })
    }

    /// Starts an attempt; the requests are the same for every node.
    pub fn attempt(&self, client: u8) -> (Id, Id) {
        self.begun.get(client, || {
            let nodes = if self.mutant == Some(Mutant::MajorityOfAnswers) { 1 } else { self.nodes };
            let mut attempt =
                Acquire::new(nodes, NonEmpty::new(self.terms(client)), Time::default());
            let Some((_, request)) = attempt.next_request() else { panic!("it asks") };
            while attempt.next_request().is_some() {}
            let id = self.machines.id(&AnyMachine::Acquire(attempt));
            self.origins.get(id, || Origin::Attempt);
            (id, self.requests.id(&request))
        })
    }

    /// Starts a re-admission; its first request goes to the target.
    pub fn order(&self, who: u8, target: u8, collect: bool) -> (Id, Id) {
        self.ordered.get((who, target, collect), || {
            let order = Readmission {
                target: target.into(),
                collect,
                // Apart, because a machine derives further ones.
                nonce: Nonce((u128::from(who) + 1) * 100),
                longest: TTL,
                strict: false,
                assume_no_locks: false,
            };
            let mut machine = Readmit::new(self.nodes, order);
            let Some((_, request)) = machine.next_request() else { panic!("it prepares") };
            let id = self.machines.id(&AnyMachine::Readmit(machine));
            self.origins.get(id, || Origin::Order { who, target, collect });
            (id, self.requests.id(&request))
        })
    }

    /// A machine takes a reply to a request of that phase.
    pub fn feed(&self, parent: Id, phase: u8, node: u8, reply: Id) -> Fed {
        self.fed.get((parent, node, phase, reply), || {
            let (mut machine, mut value) = (self.machines.get(parent), self.replies.get(reply));
            let (attempts, mut index) = (matches!(machine, AnyMachine::Acquire(_)), node);
            match self.mutant {
                Some(mutant) if !attempts => value = mutant.readmission(phase, value),
                Some(Mutant::MajorityOfAnswers) => index = 0,
                Some(mutant) => value = mutant.grant(self.chosen(parent), value),
                None => {}
            }
            machine.on_reply(Address { phase, ..usize::from(index).into() }, Ok(value));
            let mut sends = Sends::new();
            while let Some((to, request)) = machine.next_request() {
                if attempts && self.mutant == Some(Mutant::NoPublish) {
                    machine.on_reply(to, Ok(Reply::Published));
                } else {
                    sends.push((to.node as u8, to.phase, self.requests.id(&request)));
                }
            }
            let won = match machine.outcome(Time::default()) {
                Some(Ok(token)) => token.map_or(1, number),
                _ => 0,
            };
            let machine = self.machines.id(&machine);
            if machine != parent {
                self.origins.get(machine, || Origin::Fed { parent, node, phase, reply });
            }
            Fed { machine, sends: self.sent(sends), won }
        })
    }

    fn sent(&self, mut sends: Sends) -> Id {
        sends.sort_unstable();
        if sends.is_empty() { 0 } else { self.sends.id(&sends) }
    }

    fn origin(&self, machine: Id) -> Origin {
        self.origins.get(machine, || panic!("no origin"))
    }

    /// The machine in the state it would be in had the nodes been numbered otherwise.
    ///
    /// Sound because the machines treat nodes alike: the replay feeds the same replies in
    /// the same order, from the renumbered nodes.
    pub fn moved(&self, machine: Id, to: &[u8]) -> Id {
        if machine == 0 {
            return 0;
        }
        let code = to.iter().fold(0, |code, node| code * 8 + u32::from(*node));
        self.moved.get((machine, code), || match self.origin(machine) {
            Origin::Attempt => machine,
            Origin::Order { who, target, collect } => {
                self.order(who, to[target as usize], collect).0
            }
            Origin::Fed { parent, node, phase, reply } => {
                self.feed(self.moved(parent, to), phase, to[node as usize], reply).machine
            }
        })
    }

    /// The token of an attempt: the largest of the grants that first made a majority. Only
    /// mutants need to know it from outside.
    fn chosen(&self, attempt: Id) -> Option<Token> {
        let token = |(_, reply)| match reply {
            Reply::Granted { stamp, .. } => Some(token_of(stamp)),
            _ => None,
        };
        let grants: Vec<Token> = self.heard(attempt).into_iter().filter_map(token).collect();
        let first = grants.len().checked_sub(majority(self.nodes))?;
        grants[first..].iter().max().copied()
    }

    /// What an attempt has been fed, the latest first.
    pub fn heard(&self, mut attempt: Id) -> Vec<(u8, Reply)> {
        let mut heard = Vec::new();
        while let Origin::Fed { parent, node, reply, .. } = self.origin(attempt) {
            heard.push((node, self.replies.get(reply)));
            attempt = parent;
        }
        heard
    }

    pub fn renewal(&self, client: u8, token: u32) -> Id {
        self.renewals.get((client, token), || {
            let renewal = self.renew(self.nodes, client, token).next_request();
            let (_, request) = renewal.expect("it asks");
            self.requests.id(&self.mutant.map_or(request.clone(), |mutant| mutant.renewal(request)))
        })
    }

    /// Whether the replies so far make a renewed lease.
    pub fn renewed(&self, client: u8, token: u32, votes: &[bool]) -> bool {
        let code = votes.iter().fold(1, |code, vote| code * 2 + u32::from(*vote));
        self.renewed.get((client, token, code), || {
            let nodes = if self.mutant == Some(Mutant::RenewalOfOne) { 1 } else { self.nodes };
            let mut renew = self.renew(nodes, client, token);
            for (node, vote) in votes.iter().enumerate() {
                if *vote {
                    renew.on_reply((node % nodes).into(), Ok(Reply::Renewed));
                }
            }
            matches!(renew.outcome(Time::default()), Some(Ok(Renewed::Until(_))))
        })
    }

    pub fn shares(&self, client: usize) -> bool {
        self.shared & (1 << client) != 0
    }

    fn terms(&self, client: u8) -> Attempt {
        let mode = if self.shares(client.into()) { Mode::Shared } else { Mode::Exclusive };
        attempt(resource(), owner(client), mode)
    }

    fn renew(&self, nodes: usize, client: u8, token: u32) -> Renew {
        let token = Token::new(token.into()).unwrap();
        Renew::new(nodes, &NonEmpty::new((self.terms(client), token)), Time::default())
    }

    /// The store as it is after `change`.
    pub fn changed(&self, store: Id, change: Change) -> Id {
        self.changes.get((store, change), || {
            let mut value = self.stores.get(store);
            match change {
                Change::LockVanishes => value.expire_lock(&resource()),
                Change::PartVanishes(client) => value.expire_owner(&resource(), owner(client)),
                Change::Forgets => value.forget(),
                Change::RunsOut(life) => run_out(|request| ask(&mut value, life, 0, request)),
                Change::Counts(life, counts) => {
                    for _ in 0..counts {
                        count_once(&mut value, life);
                    }
                    value.expire_lock(&resource());
                }
            }
            self.stores.id(&value)
        })
    }
}

pub fn number(token: Token) -> u32 {
    u32::try_from(token.get()).expect("eras are small here")
}
