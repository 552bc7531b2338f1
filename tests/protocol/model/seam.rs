//! The seam: every step of the model that is not bookkeeping is a call of `protocol`
//! from here. Rules are switched off here too, so that the library has no switch.

use fencing_protocol::{
    Acquire, Attempt, Mode, NonEmpty, Nonce, Readmission, Readmit, Renew, RenewOutcome, Reply,
    Request, Store, Time, Token, majority,
};

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
    attempts: Pool<Acquire>,
    orders: Pool<Readmit>,
    begun: Memo<u8, (Id, Id)>,
    ordered: Memo<(u8, u8, bool), (Id, Id)>,
    renewals: Memo<(u8, u32), Id>,
    renewed: Memo<(u8, u32, u32), bool>,
    changes: Memo<(Id, Change), Id>,
    answers: Memo<(Id, u8, u8, Id), (Id, Id)>,
    fed: Memo<(bool, Id, u8, u8, Id), Fed>,
    origins: Memo<(bool, Id), Origin>,
    moved: Memo<(bool, Id, u32), Id>,
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
            let id = self.attempts.id(&attempt);
            self.origins.get((true, id), || Origin::Attempt);
            (id, self.requests.id(&request))
        })
    }

    pub fn grant(&self, attempt: Id, node: u8, reply: Id) -> Fed {
        self.fed.get((true, attempt, node, 0, reply), || {
            let mut machine = self.attempts.get(attempt);
            let mut value = self.replies.get(reply);
            if let Some(mutant) = self.mutant {
                value = mutant.grant(self.chosen(attempt), value);
            }
            let index = if self.mutant == Some(Mutant::MajorityOfAnswers) { 0 } else { node };
            machine.on_reply(index.into(), Ok(value));
            let mut sends = Sends::new();
            while let Some((node, request)) = machine.next_request() {
                if self.mutant == Some(Mutant::NoPublish) {
                    machine.on_reply(node, Ok(Reply::Published));
                } else {
                    sends.push((node as u8, 0, self.requests.id(&request)));
                }
            }
            let won = match machine.outcome(Time::default()) {
                Some(Ok(won)) => number(won.locks.head.1),
                _ => 0,
            };
            let machine = self.attempts.id(&machine);
            self.origin(true, machine, attempt, node, 0, reply);
            Fed { machine, sends: self.sent(sends), won }
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
            let id = self.orders.id(&machine);
            self.origins.get((false, id), || Origin::Order { who, target, collect });
            (id, self.requests.id(&request))
        })
    }

    pub fn readmit(&self, order: Id, phase: u8, node: u8, reply: Id) -> Fed {
        self.fed.get((false, order, node, phase, reply), || {
            let mut machine = self.orders.get(order);
            let mut value = self.replies.get(reply);
            if let Some(mutant) = self.mutant {
                value = mutant.readmission(phase, value);
            }
            machine.on_reply(phase, node.into(), Ok(value));
            let mut sends = Sends::new();
            while let Some((node, request)) = machine.next_request() {
                sends.push((node as u8, machine.phase(), self.requests.id(&request)));
            }
            let won = u32::from(machine.outcome() == Some(Ok(())));
            let machine = self.orders.id(&machine);
            self.origin(false, machine, order, node, phase, reply);
            Fed { machine, sends: self.sent(sends), won }
        })
    }

    fn sent(&self, mut sends: Sends) -> Id {
        sends.sort_unstable();
        if sends.is_empty() { 0 } else { self.sends.id(&sends) }
    }

    fn origin(&self, attempt: bool, machine: Id, parent: Id, node: u8, phase: u8, reply: Id) {
        if machine != parent {
            self.origins.get((attempt, machine), || Origin::Fed { parent, node, phase, reply });
        }
    }

    /// The machine in the state it would be in had the nodes been numbered otherwise.
    ///
    /// Sound because the machines treat nodes alike: the replay feeds the same replies in
    /// the same order, from the renumbered nodes.
    pub fn moved(&self, attempt: bool, machine: Id, to: &[u8]) -> Id {
        if machine == 0 {
            return 0;
        }
        let code = to.iter().fold(0, |code, node| code * 8 + u32::from(*node));
        self.moved.get((attempt, machine, code), || {
            match self.origins.get((attempt, machine), || panic!("no origin")) {
                Origin::Attempt => machine,
                Origin::Order { who, target, collect } => {
                    self.order(who, to[target as usize], collect).0
                }
                Origin::Fed { parent, node, phase, reply } => {
                    let (parent, node) = (self.moved(attempt, parent, to), to[node as usize]);
                    if attempt {
                        self.grant(parent, node, reply).machine
                    } else {
                        self.readmit(parent, phase, node, reply).machine
                    }
                }
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
        while let Origin::Fed { parent, node, reply, .. } =
            self.origins.get((true, attempt), || panic!("no origin"))
        {
            heard.push((node, self.replies.get(reply)));
            attempt = parent;
        }
        heard
    }

    pub fn renewal(&self, client: u8, token: u32) -> Id {
        self.renewals.get((client, token), || {
            let request = self.renew(self.nodes, client, token).request();
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
                    renew.on_reply(node % nodes, Ok(Reply::Renewed));
                }
            }
            matches!(renew.outcome(Time::default()), Some(RenewOutcome::Renewed(_)))
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
