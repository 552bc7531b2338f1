//! Clients, messages, and one random step after the other. What nodes answer and clients send is the real `protocol`.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use fencing_protocol::{
    Acquire, Address, Fault, Machine, Mode, NonEmpty, Nonce, Owner, Readmit, Relocate, Relocation, Renew, Reply,
    Request, Resource, Side, StartOrder, Time, Token,
};

use crate::machine::AnyMachine;
use crate::model::node::{TTL, attempt};
use crate::walk::Tally;
use crate::walk::servers::Servers;

/// How many attempts, and how many others, are under way.
const CLIENTS: usize = 4;
/// How many messages are on their way at most; beyond that one is lost.
const MESSAGES: usize = 64;

enum Message {
    Request(Request),
    Reply(Reply),
}

struct Letter {
    client: u64,
    list: usize,
    to: Address,
    message: Message,
}

pub struct World {
    random: Rng,
    /// Whether tokens are published: if not, this is the control.
    publishes: bool,
    moves: bool,
    servers: Servers,
    clients: Vec<Client>,
    letters: Vec<Letter>,
    returned: BTreeMap<Resource, BTreeSet<Token>>,
    next: u64,
    pub tally: Tally,
}

impl World {
    /// A fleet that was started: all nodes are admitted in the first era. With `new` it is moved to that list.
    pub fn new(nodes: usize, new: Option<Vec<usize>>, seed: u64, publishes: bool) -> World {
        let old: Vec<usize> = (0..nodes).collect();
        let moves = new.is_some();
        let servers = Servers::new([old.clone(), new.unwrap_or(old)]);
        let (clients, letters, returned) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (random, tally) = (Rng::with_seed(seed), Tally::default());
        World { random, publishes, moves, servers, clients, letters, returned, next: 1, tally }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the promise that was broken, if any.
    pub fn step(&mut self) -> Result<(), String> {
        match self.random.u16(0..1000) {
            0..890 => self.deliver()?,
            890..930 => self.begin_attempt(),
            930..950 => self.begin_order(),
            950..955 => self.begin_renewal(),
            955..975 => self.vanish(),
            975..980 => self.lose(),
            980..983 => {
                let (list, node) = self.any_node();
                self.servers.run_out(list, node);
            }
            983..986 => {
                let server = self.random.usize(0..self.servers.number());
                self.servers.save(server);
            }
            986..988 => self.begin_move(),
            _ => self.give_up(),
        }
        Ok(())
    }

    fn any_list(&mut self) -> usize {
        if self.moves { self.random.usize(0..2) } else { 0 }
    }

    fn any_node(&mut self) -> (usize, usize) {
        let list = self.any_list();
        (list, self.random.usize(0..self.servers.nodes(list)))
    }

    fn any_resource(&mut self) -> Resource {
        Resource::new(["a", "b"][self.random.usize(0..2)]).unwrap()
    }

    /// Some message arrives, or is lost. A request may be repeated later; not a `prepare`, see docs/assurance/reliability.md.
    fn deliver(&mut self) -> Result<(), String> {
        if self.letters.is_empty() {
            return Ok(());
        }
        let mut letter = self.letters.swap_remove(self.random.usize(0..self.letters.len()));
        if self.random.u8(0..100) == 0 {
            let given_up = self.time_out(&letter);
            if self.random.bool() {
                self.letters.push(letter);
            }
            return given_up;
        }
        match letter.message {
            Message::Request(request) => {
                let reply = self.servers.ask(letter.list, letter.to.node, &request);
                if self.random.u8(0..100) < 3 && !matches!(request, Request::Prepare { .. }) {
                    *self.tally.entry("repeats").or_default() += 1;
                    let message = Message::Request(request);
                    self.letters.push(Letter { message, ..letter });
                }
                letter.message = Message::Reply(reply);
                self.letters.push(letter);
            }
            Message::Reply(reply) => {
                self.feed(letter.client, letter.to, Ok(reply))?;
            }
        }
        if self.letters.len() > MESSAGES {
            let lost = self.letters.swap_remove(self.random.usize(0..self.letters.len()));
            self.time_out(&lost)?;
        }
        Ok(())
    }

    /// A message is lost or late, and its client does not wait for the answer any more.
    fn time_out(&mut self, lost: &Letter) -> Result<(), String> {
        self.feed(lost.client, lost.to, Err(Fault::TimedOut))
    }

    fn feed(&mut self, client: u64, from: Address, reply: Result<Reply, Fault>) -> Result<(), String> {
        let Some(at) = self.clients.iter().position(|it| it.number == client) else {
            return Ok(());
        };
        let client = &mut self.clients[at];
        client.machine.on_reply(from, reply);
        if !self.publishes && matches!(client.task, Task::Attempt { .. }) {
            while let Some((_, to, _)) = client.next_request() {
                client.machine.on_reply(to, Ok(Reply::Published));
            }
        }
        let outcome = client.outcome();
        if let (Some(Ok(Some(token))), Task::Attempt { won: won @ false, resource, floor, .. }) =
            (outcome, &mut client.task)
        {
            *won = true;
            *self.tally.entry("leases").or_default() += 1;
            *self.tally.entry("moved leases").or_default() += u64::from(client.list == 1);
            if floor.is_some_and(|floor| token <= floor) {
                return Err(format!("I2: {token} of {resource} began after {floor:?} was returned"));
            }
            if !self.returned.entry(resource.clone()).or_default().insert(token) {
                return Err(format!("I1: {token} of {resource} was returned twice"));
            }
        }
        self.send(at);
        let Task::Other(what) = self.clients[at].task else { return Ok(()) };
        if let Some(outcome) = outcome {
            *self.tally.entry(what).or_default() += u64::from(outcome.is_ok());
            self.clients.swap_remove(at);
        }
        Ok(())
    }

    fn send(&mut self, at: usize) {
        let client = &mut self.clients[at];
        while let Some((list, to, request)) = client.next_request() {
            let message = Message::Request(request);
            self.letters.push(Letter { client: client.number, list, to, message });
        }
    }

    fn begin(&mut self, list: usize, task: Task, machine: AnyMachine) {
        let number = self.fresh();
        self.clients.push(Client { number, list, task, machine });
        self.send(self.clients.len() - 1);
    }

    /// How many attempts and renewals are under way, and how many others.
    fn busy(&self) -> (usize, usize) {
        let others = self.clients.iter().filter(|client| matches!(client.task, Task::Other(_))).count();
        (self.clients.len() - others, others)
    }

    fn begin_attempt(&mut self) {
        if self.busy().0 >= CLIENTS {
            return;
        }
        let (list, resource) = (self.any_list(), self.any_resource());
        let owner = Owner(self.fresh().into());
        let (attempt, resources) = (attempt(owner, Mode::Exclusive), NonEmpty::new(resource.clone()));
        let machine = Acquire::new(self.servers.nodes(list), attempt, resources, Time::default());
        let floor = self.returned.get(&resource).and_then(|tokens| tokens.last().copied());
        let task = Task::Attempt { resource, owner, floor, won: false };
        self.begin(list, task, AnyMachine::Acquire(machine));
    }

    /// Somebody re-admits a node that forgot, or collects counts that ran out.
    fn begin_order(&mut self) {
        let (list, target) = self.any_node();
        let nonce = Nonce(u128::from(self.fresh()) << 8);
        let reply = self.servers.ask(list, target, &Request::Prepare { nonce, from: None });
        let Reply::Prepared(prepared) = reply else { return };
        let collect = prepared.admitted;
        if self.busy().1 >= CLIENTS || (collect && !prepared.crowded) {
            return;
        }
        let nonce = Nonce(u128::from(self.fresh()) << 8);
        let (longest, strict, assume_no_locks) = (TTL, false, false);
        let order = StartOrder { nonce, longest, strict, assume_no_locks };
        let machine = Readmit::new(self.servers.nodes(list), target, collect, order);
        let task = Task::Other(if collect { "collected" } else { "back" });
        self.begin(list, task, AnyMachine::Readmit(machine));
    }

    fn begin_move(&mut self) {
        if !self.moves || self.busy().1 >= CLIENTS {
            return;
        }
        let nonce = Nonce(u128::from(self.fresh()) << 8);
        let [old, new] = self.servers.fleets.clone();
        let order = Relocation { old, new, nonce, longest: TTL, lost: false };
        self.begin(1, Task::Other("moves"), AnyMachine::Relocate(Relocate::new(order)));
    }

    /// Somebody renews a lease that was won, however long ago.
    fn begin_renewal(&mut self) {
        let held = self.clients.iter().filter_map(|client| match (&client.task, client.outcome()) {
            (Task::Attempt { resource, owner, .. }, Some(Ok(Some(token)))) => {
                Some((client.list, resource.clone(), *owner, token))
            }
            _ => None,
        });
        let held: Vec<_> = held.collect();
        let Some((list, resource, owner, token)) = self.random.choice(held) else { return };
        let (attempt, held) = (attempt(owner, Mode::Exclusive), NonEmpty::new((resource, token)));
        let machine = Renew::new(self.servers.nodes(list), attempt, &held, Time::default());
        self.begin(list, Task::Renew, AnyMachine::Renew(machine));
        *self.tally.entry("renewals").or_default() += 1;
    }

    /// A client dies. What it has sent may still arrive.
    fn give_up(&mut self) {
        if !self.clients.is_empty() {
            let at = self.random.usize(0..self.clients.len());
            self.clients.swap_remove(at);
        }
    }

    fn vanish(&mut self) {
        let (resource, all) = (self.any_resource(), self.random.bool());
        let one = self.random.usize(0..self.servers.number());
        self.servers.vanish(&resource, |server| all || server == one);
    }

    fn lose(&mut self) {
        let (server, flush) = (self.random.usize(0..self.servers.number()), self.random.bool());
        let lost = u64::from(self.servers.lose(server, flush));
        *self.tally.entry("losses").or_default() += lost;
    }
}

enum Task {
    /// `floor`: the largest token that had been returned when it began.
    Attempt { resource: Resource, owner: Owner, floor: Option<Token>, won: bool },
    /// Of a lease that was won.
    Renew,
    /// Its name in the tally.
    Other(&'static str),
}

struct Client {
    number: u64,
    /// The list that it speaks to; a move speaks to both.
    list: usize,
    task: Task,
    machine: AnyMachine,
}

impl Client {
    /// The next request, and the list that it goes to.
    fn next_request(&mut self) -> Option<(usize, Address, Request)> {
        let (to, request) = self.machine.next_request()?;
        Some((if to.side == Side::Old { 0 } else { self.list }, to, request))
    }

    fn outcome(&self) -> Option<Result<Option<Token>, ()>> {
        self.machine.outcome(Time::default())
    }
}
