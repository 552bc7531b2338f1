//! The seam: every step of the model that is not bookkeeping is a call of `protocol`
//! from here. Rules are switched off here too, so that the library has no switch.

use std::time::Duration;

use fencing_protocol::{
    Acquire, Address, Attempt, Fault, Fleet, Machine, Membership, Mode, NonEmpty, Nonce, Readmit, Relocate, Relocation,
    Renew, Renewed, Reply, Request, Side, StartOrder, Store, Time, Token, majority,
};

use crate::machine::AnyMachine;
use crate::model::mutant::Mutant;
use crate::model::node::{
    FLEET, TTL, ask, ask_as, attempt, count_once, incarnation, owner, resource, run_out, token_of,
};
use crate::model::pool::{Id, Memo, Pool};

/// The numbers of the phases of a re-admission, and from where on those of a start are.
pub const PREPARE: u8 = 1;
pub const READ: u8 = 2;
pub const CONFIRM: u8 = 4;
pub const STARTS: u8 = 16;
pub const START_CONFIRM: u8 = STARTS + 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Open {
    pub list: u8,
    pub server: u8,
    /// The phase of the machine that sent it.
    pub phase: u8,
    pub request: Id,
    /// Its client does not wait for the answer any more.
    pub given_up: bool,
}

/// What a machine became, and what it sends.
#[derive(Clone, Copy)]
pub struct Turn {
    pub machine: Id,
    /// In `Seam::opens`; zero for none.
    pub sends: Id,
    pub over: bool,
    /// The token if it is an attempt that is won; one if anything else succeeded.
    pub won: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Client {
    machine: AnyMachine,
    /// The list that it speaks to; a move speaks to both.
    list: u8,
    /// What each node showed when it was marked: for the mutant that reads it then.
    marks: Vec<(u8, u64, u64)>,
}

/// A store and its life, the list and the second in which it is asked, and the request.
type Asked = (Id, u8, u8, u8, Id);

/// The era of an admitted node, and the largest that it knows of.
pub type Known = Option<(u64, u64)>;

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
    /// The servers of each list: the old one, the new one. Most worlds have the first only.
    pub lists: [Vec<u8>; 2],
    fleets: Vec<Fleet>,
    pub mutant: Option<Mutant>,
    /// Which clients share the lock: one bit for each.
    pub shared: u8,
    pub stores: Pool<Store>,
    pub requests: Pool<Request>,
    pub replies: Pool<Reply>,
    pub opens: Pool<Vec<Open>>,
    clients: Pool<Client>,
    begun: Memo<u8, (Id, Id)>,
    ordered: Memo<(u8, u8, bool), (Id, Id)>,
    renewals: Memo<(u8, u32), Id>,
    renewed: Memo<(u8, u32, u32), bool>,
    changes: Memo<(Id, Change), Id>,
    known: Memo<(Id, u8, u8), Known>,
    answers: Memo<Asked, (Id, Id)>,
    turns: Memo<(Id, u8, u8, Id), Turn>,
    origins: Memo<Id, Origin>,
    moved: Memo<(Id, u32), Id>,
}

impl Seam {
    pub fn new(nodes: usize, mutant: Option<Mutant>) -> Seam {
        let fleets = vec![Fleet::parse(FLEET).unwrap()];
        Seam { lists: [(0..nodes as u8).collect(), Vec::new()], fleets, mutant, ..Seam::default() }
    }

    pub fn of_lists(lists: [Vec<u8>; 2], mutant: Option<Mutant>) -> Seam {
        let name = |server: &u8| char::from(b'a' + server).to_string();
        let fleet = |list: &Vec<u8>| match list.as_slice() {
            [] => Fleet::parse("nobody").unwrap(),
            servers => Fleet::new(servers.iter().map(name)).unwrap(),
        };
        let fleets = lists.iter().map(fleet).collect();
        Seam { lists, fleets, mutant, ..Seam::default() }
    }

    pub fn nodes(&self) -> usize {
        self.lists[0].len()
    }

    /// The real node answers a client of that list.
    pub fn ask(&self, store: &mut Store, life: u8, list: u8, second: u8, request: &Request) -> Reply {
        let member = |fleet: &Fleet| Membership { incarnation: incarnation(life), fleet: fleet.clone() };
        let before = store.clone();
        let reply = match self.mutant {
            Some(mutant) if self.fleets.len() == 1 => mutant.answer(store, life, second, request),
            _ => ask_as(&member(&self.fleets[list as usize]), store, second, request),
        };
        match (self.mutant, request, &reply) {
            (Some(Mutant::NoFleetCheck), Request::Read, Reply::OtherFleet(fleet)) => {
                ask_as(&member(fleet), store, second, request)
            }
            (Some(Mutant::NoStartPromise), Request::Reserve { memory: Some(_), .. }, _) => {
                *store = before;
                reply
            }
            _ => reply,
        }
    }

    /// The store after that, and the reply.
    pub fn answer(&self, store: Id, life: u8, list: u8, second: u8, request: Id) -> (Id, Id) {
        self.answers.get((store, life, list, second, request), || {
            let mut store = self.stores.get(store);
            let reply = self.ask(&mut store, life, list, second, &self.requests.get(request));
            (self.stores.id(&store), self.replies.id(&reply))
        })
    }

    /// What a node that votes in that list knows.
    pub fn known(&self, store: Id, life: u8, list: u8) -> Known {
        self.known.get((store, life, list), || {
            match self.ask(&mut self.stores.get(store), life, list, 0, &Request::Read) {
                Reply::State(state) => Some((state.era, state.highest())),
                _ => None,
            }
        })
    }

    /// Starts an attempt; the requests are the same for every node.
    pub fn attempt(&self, client: u8) -> (Id, Id) {
        self.begun.get(client, || {
            let nodes = if self.mutant == Some(Mutant::MajorityOfAnswers) { 1 } else { self.nodes() };
            let resources = NonEmpty::new(resource());
            let attempt = Acquire::new(nodes, self.terms(client), resources, Time::default());
            self.first(AnyMachine::Acquire(attempt), Origin::Attempt)
        })
    }

    /// Starts a re-admission; its first request goes to the target.
    pub fn order(&self, who: u8, target: u8, collect: bool) -> (Id, Id) {
        self.ordered.get((who, target, collect), || {
            let readmit = Readmit::new(self.nodes(), target.into(), collect, start_order(who));
            self.first(AnyMachine::Readmit(readmit), Origin::Order { who, target, collect })
        })
    }

    /// A machine that has asked, and what it asks first.
    fn first(&self, machine: AnyMachine, origin: Origin) -> (Id, Id) {
        let Turn { machine, sends, .. } = self.begin(machine, 0);
        self.origins.get(machine, || origin);
        (machine, self.opens.get(sends)[0].request)
    }

    /// Starts to bring a node back to a list. `first`: leans on clocks if too few remember.
    pub fn readmit(&self, who: u8, list: u8, server: u8, first: bool) -> Turn {
        let (longest, nonce) = (Duration::ZERO, nonce(who));
        let order = StartOrder { nonce, longest, strict: !first, assume_no_locks: first };
        let (nodes, target) = (self.lists[list as usize].len(), self.index(list, server));
        let readmit = Readmit::new(nodes, target, false, order);
        self.begin(AnyMachine::Readmit(readmit), list)
    }

    pub fn mover(&self, who: u8) -> Turn {
        let (old, new) = (self.fleets[0].clone(), self.fleets[1].clone());
        let (nonce, longest) = (nonce(who), Duration::ZERO);
        let order = Relocation { old, new, nonce, longest, lost: false };
        self.begin(AnyMachine::Relocate(Relocate::new(order)), 1)
    }

    fn begin(&self, machine: AnyMachine, list: u8) -> Turn {
        self.turn(Client { machine, list, marks: Vec::new() })
    }

    pub fn index(&self, list: u8, server: u8) -> usize {
        self.lists[list as usize].iter().position(|member| *member == server).unwrap()
    }

    /// A machine takes a reply to a request of that phase; zero where it gives up the request.
    pub fn feed(&self, parent: Id, phase: u8, node: u8, reply: Id) -> Turn {
        self.turns.get((parent, node, phase, reply), || {
            let mut client = self.clients.get(parent);
            let value = match reply {
                0 => Err(Fault::TimedOut),
                reply => Ok(self.forged(&mut client, parent, phase, node, self.replies.get(reply))),
            };
            let attempts = matches!(client.machine, AnyMachine::Acquire(_));
            let alone = attempts && self.mutant == Some(Mutant::MajorityOfAnswers);
            let index = if alone { 0 } else { usize::from(node) };
            client.machine.on_reply(Address { phase, ..index.into() }, value);
            let turn = self.turn(client);
            if turn.machine != parent {
                self.origins.get(turn.machine, || Origin::Fed { parent, node, phase, reply });
            }
            turn
        })
    }

    /// A reply as a machine takes it where a rule is left out.
    fn forged(&self, client: &mut Client, parent: Id, phase: u8, node: u8, mut reply: Reply) -> Reply {
        let Some(mutant) = self.mutant else { return reply };
        if matches!(client.machine, AnyMachine::Acquire(_)) {
            return mutant.grant(self.chosen(parent), reply);
        }
        if let (Mutant::ReadsBeforeMarks, Reply::Prepared(prepared)) = (mutant, &mut reply) {
            let state = &mut prepared.state;
            if phase == STARTS + 1 {
                client.marks.push((node, state.era, state.reserved));
                client.marks.sort_unstable();
            }
            let mark = client.marks.iter().find(|mark| mark.0 == node && phase == STARTS + 2);
            if let Some((_, era, reserved)) = mark {
                (state.era, state.reserved) = (*era, *reserved);
            }
        }
        mutant.readmission(phase, reply)
    }

    fn turn(&self, mut client: Client) -> Turn {
        let mut sends = Vec::new();
        while let Some((to, request)) = client.machine.next_request() {
            let publishes = matches!(request, Request::Publish { .. });
            if publishes && self.mutant == Some(Mutant::NoPublish) {
                client.machine.on_reply(to, Ok(Reply::Published));
                continue;
            }
            let list = if to.side == Side::Old { 0 } else { client.list };
            let server = self.lists[list as usize][to.node];
            let (phase, request) = (to.phase, self.requests.id(&request));
            sends.push(Open { list, server, phase, request, given_up: false });
        }
        let outcome = client.machine.outcome(Time::default());
        let won = outcome.and_then(Result::ok).map_or(0, |token| token.map_or(1, number));
        let (machine, sends) = (self.clients.id(&client), self.open(sends));
        Turn { machine, sends, over: outcome.is_some(), won }
    }

    pub fn open(&self, mut requests: Vec<Open>) -> Id {
        requests.sort_unstable();
        if requests.is_empty() { 0 } else { self.opens.id(&requests) }
    }

    fn origin(&self, machine: Id) -> Origin {
        self.origins.get(machine, || panic!("no origin"))
    }

    /// The machine in the state it would be in had the nodes been numbered otherwise.
    ///
    /// Sound because machines treat nodes alike: the replay feeds the same replies in order, from the renumbered nodes.
    pub fn moved(&self, machine: Id, to: &[u8]) -> Id {
        if machine == 0 {
            return 0;
        }
        let code = to.iter().fold(0, |code, node| code * 8 + u32::from(*node));
        self.moved.get((machine, code), || match self.origin(machine) {
            Origin::Attempt => machine,
            Origin::Order { who, target, collect } => self.order(who, to[target as usize], collect).0,
            Origin::Fed { parent, node, phase, reply } => {
                self.feed(self.moved(parent, to), phase, to[node as usize], reply).machine
            }
        })
    }

    /// The token of an attempt: the largest of the grants that first made a majority. Only mutants need it outside.
    fn chosen(&self, attempt: Id) -> Option<Token> {
        let token = |(_, reply)| if let Reply::Granted { stamp, .. } = reply { Some(token_of(stamp)) } else { None };
        let grants: Vec<Token> = self.heard(attempt).into_iter().filter_map(token).collect();
        let first = grants.len().checked_sub(majority(self.nodes()))?;
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
            let renewal = self.renew(self.nodes(), client, token).next_request();
            let (_, request) = renewal.expect("it asks");
            self.requests.id(&self.mutant.map_or(request.clone(), |mutant| mutant.renewal(request)))
        })
    }

    /// Whether the replies so far make a renewed lease.
    pub fn renewed(&self, client: u8, token: u32, votes: &[bool]) -> bool {
        let code = votes.iter().fold(1, |code, vote| code * 2 + u32::from(*vote));
        self.renewed.get((client, token, code), || {
            let nodes = if self.mutant == Some(Mutant::RenewalOfOne) { 1 } else { self.nodes() };
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
        attempt(owner(client), mode)
    }

    fn renew(&self, nodes: usize, client: u8, token: u32) -> Renew {
        let held = NonEmpty::new((resource(), Token::new(token.into()).unwrap()));
        Renew::new(nodes, self.terms(client), &held, Time::default())
    }

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

fn start_order(who: u8) -> StartOrder {
    StartOrder { nonce: nonce(who), longest: TTL, strict: false, assume_no_locks: false }
}

/// Apart, because a machine derives further ones.
fn nonce(who: u8) -> Nonce {
    Nonce((u128::from(who) + 1) * 100)
}

pub fn number(token: Token) -> u32 {
    u32::try_from(token.get()).expect("eras are small here")
}
