//! The seam of the worlds with two lists: what nodes answer to the real machines that start,
//! move and re-admit, and what these send next.

use std::time::Duration;

use fencing_protocol::{
    Address, Fault, Fleet, Machine, Membership, Nonce, Readmission, Readmit, Relocate, Relocation,
    Reply, Request, Side, Store, Time,
};

use crate::machine::AnyMachine;
use crate::model::mutant::Mutant;
use crate::model::node::{ask_as, incarnation};
use crate::model::pool::{Id, Memo, Pool};
use crate::model::seam::{START_CONFIRM, STARTS};

/// What the clocks of all nodes show.
const CLOCK: u8 = 10;

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Open {
    pub list: u8,
    pub server: u8,
    pub phase: u8,
    pub request: Id,
    /// Its client does not wait for the answer any more.
    pub given_up: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Client {
    machine: AnyMachine,
    /// The list that it speaks to; a move speaks to both.
    list: u8,
    /// What each node showed when it was marked: for the mutant that reads it then.
    marks: Vec<(usize, u64, u64)>,
}

/// What a machine became, and what it sends.
#[derive(Clone, Copy)]
pub struct Turn {
    pub machine: Id,
    pub sends: Id,
    pub over: bool,
}

#[derive(Default)]
pub struct Desk {
    /// The servers of each list: the old one, the new one.
    pub lists: [Vec<u8>; 2],
    fleets: Vec<Fleet>,
    mutant: Option<Mutant>,
    pub stores: Pool<Store>,
    pub requests: Pool<Request>,
    pub replies: Pool<Reply>,
    pub opens: Pool<Vec<Open>>,
    clients: Pool<Client>,
    answers: Memo<(Id, u8, u8, Id), (Id, Id)>,
    turns: Memo<(Id, u8, u8, Id), Turn>,
    eras: Memo<(Id, u8, u8), Option<u64>>,
}

impl Desk {
    pub fn new(lists: [Vec<u8>; 2], mutant: Option<Mutant>) -> Desk {
        let name = |server: &u8| char::from(b'a' + server).to_string();
        let fleet = |list: &Vec<u8>| match list.as_slice() {
            [] => Fleet::parse("nobody").unwrap(),
            servers => Fleet::new(servers.iter().map(name)).unwrap(),
        };
        let fleets = lists.iter().map(fleet).collect();
        Desk { lists, fleets, mutant, ..Desk::default() }
    }

    pub fn ask(&self, store: &mut Store, life: u8, list: u8, request: &Request) -> Reply {
        let member =
            |fleet: &Fleet| Membership { incarnation: incarnation(life), fleet: fleet.clone() };
        let before = store.clone();
        let reply = ask_as(&member(&self.fleets[list as usize]), store, CLOCK, request);
        match (self.mutant, request, &reply) {
            (Some(Mutant::NoFleetCheck), Request::Read, Reply::OtherFleet(fleet)) => {
                ask_as(&member(fleet), store, CLOCK, request)
            }
            (Some(Mutant::NoStartPromise), Request::Reserve { memory: Some(_), .. }, _) => {
                *store = before;
                reply
            }
            _ => reply,
        }
    }

    pub fn answer(&self, store: Id, life: u8, list: u8, request: Id) -> (Id, Id) {
        self.answers.get((store, life, list, request), || {
            let mut store = self.stores.get(store);
            let reply = self.ask(&mut store, life, list, &self.requests.get(request));
            (self.stores.id(&store), self.replies.id(&reply))
        })
    }

    /// The era in which a node votes in that list.
    pub fn era(&self, store: Id, life: u8, list: u8) -> Option<u64> {
        self.eras.get((store, life, list), || {
            match self.ask(&mut self.stores.get(store), life, list, &Request::Read) {
                Reply::State(state) => Some(state.era),
                _ => None,
            }
        })
    }

    pub fn mover(&self, who: u8) -> Turn {
        let (old, new) = (self.fleets[0].clone(), self.fleets[1].clone());
        let (nonce, longest) = (nonce(who), Duration::ZERO);
        let order = Relocation { old, new, nonce, longest, lost: false };
        let machine = AnyMachine::Relocate(Relocate::new(order));
        self.turn(Client { machine, list: 1, marks: Vec::new() })
    }

    /// `first`: leans on clocks if too few remember.
    pub fn readmit(&self, who: u8, list: u8, server: u8, first: bool) -> Turn {
        let order = Readmission {
            target: self.index(list, server),
            collect: false,
            nonce: nonce(who),
            longest: Duration::ZERO,
            strict: !first,
            assume_no_locks: first,
        };
        let readmit = Readmit::new(self.lists[list as usize].len(), order);
        let machine = AnyMachine::Readmit(readmit);
        self.turn(Client { machine, list, marks: Vec::new() })
    }

    fn index(&self, list: u8, server: u8) -> usize {
        self.lists[list as usize].iter().position(|member| *member == server).unwrap()
    }

    /// The machine takes an answer; none for a request that it gives up.
    pub fn feed(&self, machine: Id, to: Open, reply: Option<Id>) -> Turn {
        let node = self.index(to.list, to.server);
        self.turns.get((machine, to.phase, node as u8, reply.unwrap_or(0)), || {
            let mut client = self.clients.get(machine);
            let reply = match reply {
                Some(reply) => Ok(self.forged(&mut client, to.phase, node, reply)),
                None => Err(Fault::TimedOut),
            };
            client.machine.on_reply(Address { phase: to.phase, ..node.into() }, reply);
            self.turn(client)
        })
    }

    fn forged(&self, client: &mut Client, phase: u8, node: usize, reply: Id) -> Reply {
        let mut reply = self.replies.get(reply);
        let Reply::Prepared(prepared) = &mut reply else { return reply };
        let state = &mut prepared.state;
        match self.mutant {
            Some(Mutant::NoStartPromise) if phase == START_CONFIRM => state.reserved = u64::MAX,
            Some(Mutant::ReadsBeforeMarks) if phase == STARTS + 1 => {
                client.marks.push((node, state.era, state.reserved));
                client.marks.sort_unstable();
            }
            Some(Mutant::ReadsBeforeMarks) if phase == STARTS + 2 => {
                if let Some((_, era, reserved)) = client.marks.iter().find(|mark| mark.0 == node) {
                    (state.era, state.reserved) = (*era, *reserved);
                }
            }
            _ => {}
        }
        reply
    }

    fn turn(&self, mut client: Client) -> Turn {
        let mut sends = Vec::new();
        while let Some((to, request)) = client.machine.next_request() {
            let list = if to.side == Side::Old { 0 } else { client.list };
            let (server, request) =
                (self.lists[list as usize][to.node], self.requests.id(&request));
            sends.push(Open { list, server, phase: to.phase, request, given_up: false });
        }
        let over = client.machine.outcome(Time::default()).is_some();
        Turn { machine: self.clients.id(&client), sends: self.open(sends), over }
    }

    pub fn open(&self, mut requests: Vec<Open>) -> Id {
        requests.sort_unstable();
        if requests.is_empty() { 0 } else { self.opens.id(&requests) }
    }
}

/// Apart, because a machine derives further ones.
fn nonce(who: u8) -> Nonce {
    Nonce((u128::from(who) + 1) * 100)
}
