//! Servers, and machines whose every message is moved by hand.

use std::iter::from_fn;
use std::time::Duration;

use fencing_protocol::{
    Acquire, Address, Attempt, Clocks, Fault, Fleet, Incarnation, Lost, Machine, Membership, Mode, NonEmpty, Nonce,
    Owner, Readmit, ReadmitError, Release, Relocate, Relocation, Reply, Request, Side, StartOrder, Store, Terms, Time,
    Token, Won,
};

pub use crate::model::node::resource;
use crate::model::node::run_out;

pub const TTL: Duration = Duration::from_secs(10);

pub struct World {
    pub servers: Vec<(Incarnation, Store)>,
    /// How far each server's clock is behind.
    pub behind: Vec<Duration>,
    pub now: Time,
    pub clock: Duration,
    next: u128,
}

/// The fleet of these servers. They are called so that they stand in it in this order.
fn fleet(servers: &[usize]) -> Fleet {
    assert!(servers.is_sorted());
    Fleet::new(servers.iter().map(|server| format!("n{server:02}"))).unwrap()
}

pub fn acquire(owner: Owner) -> Request {
    Request::Acquire { resource: resource(), owner, mode: Mode::Exclusive, ttl: TTL }
}

/// An order to bring a server back, or to start a fleet.
pub fn start_order(nonce: Nonce) -> StartOrder {
    StartOrder { nonce, longest: TTL, strict: false, assume_no_locks: false }
}

pub fn drive<M: Machine>(
    machine: &mut M,
    mut answer: impl FnMut(Address, Request) -> Result<Reply, Fault>,
) -> Option<M::Outcome> {
    while let Some((to, request)) = machine.next_request() {
        machine.on_reply(to, answer(to, request));
    }
    machine.outcome(Time::default())
}

impl World {
    pub fn blank(servers: usize) -> World {
        let life = |number: usize| Incarnation::new(&format!("life-{number}"));
        let behind = vec![Duration::ZERO; servers];
        let servers = (0..servers).map(|number| (life(number), Store::default())).collect();
        World { servers, behind, now: Time::default(), clock: Duration::from_secs(1000), next: 1 }
    }

    pub fn started(servers: usize) -> World {
        let mut world = World::blank(servers);
        world.start(&world.all());
        world
    }

    pub fn all(&self) -> Vec<usize> {
        (0..self.servers.len()).collect()
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.clock += time;
    }

    fn fresh(&mut self) -> u128 {
        self.next += 10;
        self.next
    }

    /// Asks a server as a client of the list of all.
    pub fn ask(&mut self, server: usize, request: &Request) -> Reply {
        self.ask_in(&self.all(), server, request)
    }

    fn ask_in(&mut self, list: &[usize], server: usize, request: &Request) -> Reply {
        let (incarnation, store) = &mut self.servers[server];
        let me = Membership { incarnation: incarnation.clone(), fleet: fleet(list) };
        let clock = self.clock.saturating_sub(self.behind[server]);
        // Servers that have been up for long: what is blank is new.
        store.answer(&me, request, Clocks { now: self.now, clock, uptime: Duration::MAX })
    }

    pub fn restart(&mut self, server: usize, store: Store) {
        let life = self.fresh();
        self.servers[server] = (Incarnation::new(&format!("life-{life}")), store);
    }

    pub fn forget(&mut self, server: usize) {
        self.restart(server, Store::default());
    }

    pub fn readmit(&mut self, list: &[usize], server: usize) -> Open<Readmit> {
        let target = list.iter().position(|member| *member == server).unwrap();
        let order = start_order(Nonce(self.fresh()));
        Open::new(Readmit::new(list.len(), target, false, order), list)
    }

    /// Brings a server back to the list of all by this order, or collects its counts. Everyone answers.
    pub fn readmit_by(&mut self, target: usize, collect: bool, order: StartOrder) -> Result<(), ReadmitError> {
        let machine = Readmit::new(self.servers.len(), target, collect, order);
        Open::new(machine, &self.all()).all(self).unwrap().map(drop)
    }

    pub fn back(&mut self, server: usize) -> Result<(), ReadmitError> {
        let nonce = Nonce(self.fresh());
        self.readmit_by(server, false, start_order(nonce))
    }

    pub fn start(&mut self, list: &[usize]) {
        assert!(matches!(self.readmit(list, list[0]).all(self), Some(Ok(_))));
        self.wait(Duration::from_secs(1));
    }

    /// Moves the fleet; the machine is the one of `fencing fleet move`.
    pub fn mover(&mut self, old: &[usize], new: &[usize]) -> Open<Relocate> {
        self.mover_of(old, new, TTL)
    }

    /// A mover whose own leases last for `longest` at most.
    pub fn mover_of(&mut self, old: &[usize], new: &[usize], longest: Duration) -> Open<Relocate> {
        let nonce = Nonce(self.fresh());
        let order = Relocation { old: fleet(old), new: fleet(new), nonce, longest, lost: false };
        Open { old: old.to_vec(), ..Open::new(Relocate::new(order), new) }
    }

    pub fn terms(&mut self) -> Attempt {
        let (lock_delay, drift) = (Duration::ZERO, Duration::from_millis(102));
        let terms = Terms { ttl: TTL, lock_delay, drift };
        Attempt { owner: Owner(self.fresh()), mode: Mode::Exclusive, terms }
    }

    pub fn attempt(&mut self, list: &[usize]) -> Open<Acquire> {
        let (attempt, resources) = (self.terms(), NonEmpty::new(resource()));
        Open::new(Acquire::new(list.len(), attempt, resources, self.now), list)
    }

    /// One lease, of which only these servers hear. Later its time is up.
    pub fn lease(&mut self, list: &[usize], on: &[usize]) -> Option<Token> {
        let mut attempt = self.attempt(list);
        attempt.heard_by(self, on);
        attempt.heard_by(self, on);
        let token = attempt.token(self);
        self.wait(TTL * 2);
        token
    }

    /// An attempt in the list of all, which only these servers hear; the others time out.
    pub fn acquire_on(&mut self, reached: &[usize]) -> Result<Won, Lost> {
        self.attempt(&self.all()).all_on(self, reached).unwrap()
    }

    /// The token of such an attempt, which is released.
    pub fn lease_on(&mut self, reached: &[usize]) -> Token {
        let outcome = self.acquire_on(reached);
        // The latest number was the attempt's.
        let owner = Owner(self.next);
        let release = Release::new(self.servers.len(), Request::Release { resource: resource(), owner });
        Open::new(release, &self.all()).all(self);
        outcome.unwrap().locks.head.1
    }

    /// A count runs out on the server: its counts are to be collected.
    pub fn run_out(&mut self, server: usize) {
        run_out(|request| self.ask(server, request));
    }

    pub fn era(&mut self, server: usize) -> u64 {
        let Reply::State(state) = self.ask(server, &Request::Read) else { panic!() };
        state.era
    }
}

/// A machine and its requests that are still on their way.
pub struct Open<M> {
    pub machine: M,
    list: Vec<usize>,
    /// The list that is left, for a move.
    old: Vec<usize>,
    requests: Vec<(Address, Request)>,
}

impl<M: Machine> Open<M> {
    pub fn new(machine: M, list: &[usize]) -> Open<M> {
        let (list, old, requests) = (list.to_vec(), Vec::new(), Vec::new());
        let mut open = Open { machine, list, old, requests };
        open.send();
        open
    }

    /// Sends what the machine says. Requests of an earlier phase are of no use any more.
    fn send(&mut self) {
        let sent: Vec<_> = from_fn(|| self.machine.next_request()).collect();
        if let Some((now, _)) = sent.first() {
            self.requests.retain(|(to, _)| to.phase == now.phase);
        }
        self.requests.extend(sent);
    }

    fn list(&self, to: Address) -> &[usize] {
        if to.side == Side::Old { &self.old } else { &self.list }
    }

    fn server(&self, to: Address) -> usize {
        self.list(to)[to.node]
    }

    fn next_to(&mut self, server: usize) -> Option<(Address, Request)> {
        let found = self.requests.iter().position(|(to, _)| self.server(*to) == server)?;
        Some(self.requests.remove(found))
    }

    /// One request to each of these servers arrives, if there is one, and so does its answer.
    pub fn heard_by(&mut self, world: &mut World, servers: &[usize]) {
        for server in servers {
            let Some((to, request)) = self.next_to(*server) else { continue };
            let reply = world.ask_in(self.list(to), *server, &request);
            self.machine.on_reply(to, Ok(reply));
            self.send();
        }
    }

    fn asked(&self) -> Vec<usize> {
        self.requests.iter().map(|(to, _)| self.server(*to)).collect()
    }

    /// The requests that are under way arrive, and their answers.
    pub fn round(&mut self, world: &mut World) {
        let servers = self.asked();
        self.heard_by(world, &servers);
    }

    pub fn until_activation(&mut self, world: &mut World) {
        let activates = |(_, request): &_| matches!(request, Request::Activate { .. });
        while !self.requests.is_empty() && !self.requests.iter().any(activates) {
            self.round(world);
        }
    }

    /// Everything that is asked is answered at once.
    pub fn all(&mut self, world: &mut World) -> Option<M::Outcome> {
        let servers = world.all();
        self.all_on(world, &servers)
    }

    /// Everything that is asked of these servers is answered at once; the others time out.
    pub fn all_on(&mut self, world: &mut World, reached: &[usize]) -> Option<M::Outcome> {
        while let Some(server) = self.asked().first().copied() {
            if reached.contains(&server) {
                self.heard_by(world, &[server]);
            } else if let Some((to, _)) = self.next_to(server) {
                self.machine.on_reply(to, Err(Fault::TimedOut));
                self.send();
            }
        }
        self.outcome(world)
    }

    pub fn outcome(&self, world: &World) -> Option<M::Outcome> {
        self.machine.outcome(world.now)
    }
}

impl Open<Acquire> {
    pub fn token(&self, world: &World) -> Option<Token> {
        Some(self.outcome(world)?.ok()?.locks.head.1)
    }
}
