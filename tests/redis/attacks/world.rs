//! Nodes and machines whose every message is moved by hand. Public API only.

use std::time::Duration;

use fencing::time::Time;
use fencing::{Resource, Token};
use fencing_protocol::{
    Acquire, Attempt, Clocks, Fleet, Incarnation, Membership, Mode, NonEmpty, Nonce, Owner,
    Readmission, Readmit, Relocate, Relocation, Reply, Request, Side, Store, Terms, majority,
};

pub const TTL: Duration = Duration::from_secs(10);

/// Servers, of which the fleets are made.
pub struct World {
    servers: Vec<(Incarnation, Store)>,
    /// How far each server's clock is behind.
    behind: Vec<Duration>,
    now: Time,
    clock: Duration,
    next: u128,
}

/// The fleet of these servers. They are called so that they stand in it in this order.
pub fn fleet(servers: &[usize]) -> Fleet {
    assert!(servers.is_sorted());
    Fleet::new(servers.iter().map(|server| format!("n{server:02}"))).unwrap()
}

impl World {
    /// This many servers that were never started.
    pub fn blank(servers: usize) -> World {
        let life = |number: usize| Incarnation::new(&format!("life-{number}"));
        World {
            servers: (0..servers).map(|number| (life(number), Store::default())).collect(),
            behind: vec![Duration::ZERO; servers],
            now: Time::default(),
            clock: Duration::from_secs(1000),
            next: 1,
        }
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.clock += time;
    }

    /// The server's clock is so far behind the others'.
    pub fn set_behind(&mut self, server: usize, time: Duration) {
        self.behind[server] = time;
    }

    fn fresh(&mut self) -> u128 {
        self.next += 10;
        self.next
    }

    fn ask(&mut self, fleet: &Fleet, server: usize, request: &Request) -> Reply {
        let (incarnation, store) = &mut self.servers[server];
        let me = Membership { incarnation: incarnation.clone(), fleet: fleet.clone() };
        let clock = self.clock - self.behind[server];
        let moment = Clocks { now: self.now, clock, uptime: Duration::MAX };
        store.answer(&me, request, moment)
    }

    /// The server crashes and comes back without any data.
    pub fn forget(&mut self, server: usize) {
        let life = self.fresh();
        self.servers[server] = (Incarnation::new(&format!("life-{life}")), Store::default());
    }

    pub fn readmit(&mut self, fleet: &[usize], server: usize) -> Open<Readmit> {
        let target = fleet.iter().position(|member| *member == server).unwrap();
        let (nonce, strict, assume_no_locks) = (Nonce(self.fresh()), false, false);
        let order =
            Readmission { target, collect: false, nonce, longest: TTL, strict, assume_no_locks };
        let machine = Readmit::new(fleet.len(), order);
        let replied = |it: &mut Readmit, phase, node, reply| it.on_reply(phase, node, Ok(reply));
        Open::new(
            machine,
            (fleet, &[]),
            |it| of_one_list(it.next_request()),
            replied,
            Readmit::phase,
        )
    }

    pub fn start(&mut self, fleet: &[usize]) {
        let mut start = self.readmit(fleet, fleet[0]);
        start.all(self);
        assert_eq!(start.machine.outcome(), Some(Ok(())));
        self.wait(Duration::from_secs(1));
    }

    /// Moves the fleet; the machine is the one of `fencing fleet move`.
    pub fn mover(&mut self, old: &[usize], new: &[usize]) -> Open<Relocate> {
        self.mover_of(old, new, TTL)
    }

    /// A mover whose own leases last for `longest` at most.
    pub fn mover_of(&mut self, old: &[usize], new: &[usize], longest: Duration) -> Open<Relocate> {
        let order = Relocation {
            old: fleet(old),
            new: fleet(new),
            nonce: Nonce(self.fresh()),
            longest,
            lost: false,
        };
        let machine = Relocate::new(order);
        let replied = |it: &mut Relocate, phase, node, reply| it.on_reply(phase, node, Ok(reply));
        Open::new(machine, (new, old), Relocate::next_request, replied, Relocate::phase)
    }

    pub fn attempt(&mut self, fleet: &[usize]) -> Open<Acquire> {
        let terms =
            Terms { ttl: TTL, lock_delay: Duration::ZERO, drift: Duration::from_millis(102) };
        let attempt = Attempt {
            resource: Resource::new("invoice/42").unwrap(),
            owner: Owner(self.fresh()),
            mode: Mode::Exclusive,
            terms,
        };
        let machine = Acquire::new(fleet.len(), NonEmpty::new(attempt), self.now);
        let replied = |it: &mut Acquire, _, node, reply| it.on_reply(node, Ok(reply));
        Open::new(machine, (fleet, &[]), |it| of_one_list(it.next_request()), replied, |_| 0)
    }

    /// One lease, of which only these servers hear. Later its time is up.
    pub fn lease(&mut self, fleet: &[usize], on: &[usize]) -> Option<Token> {
        let mut attempt = self.attempt(fleet);
        attempt.heard_by(self, on);
        attempt.heard_by(self, on);
        let token = attempt.token(self);
        self.wait(TTL * 2);
        token
    }

    /// The whole re-admission of a server, heard by these others only.
    pub fn bring_back(&mut self, fleet: &[usize], server: usize, others: &[usize]) {
        assert!(others.len() >= majority(fleet.len()));
        let mut order = self.readmit(fleet, server);
        order.at(self, server);
        for _ in 0..3 {
            order.heard_by(self, others);
        }
        order.at(self, server);
        assert_eq!(order.machine.outcome(), Some(Ok(())), "{server} is back");
    }
}

/// A request to a node of one of the lists.
type Addressed = (Side, usize, Request);

/// A machine and its requests that are still on their way.
pub struct Open<M> {
    pub machine: M,
    next: fn(&mut M) -> Option<Addressed>,
    replied: fn(&mut M, u8, usize, Reply),
    phase: fn(&M) -> u8,
    fleet: Vec<usize>,
    /// The list that is left, for a move.
    old: Vec<usize>,
    requests: Vec<Addressed>,
}

fn of_one_list(request: Option<(usize, Request)>) -> Option<Addressed> {
    request.map(|(node, request)| (Side::New, node, request))
}

impl<M> Open<M> {
    fn new(
        machine: M,
        (fleet, old): (&[usize], &[usize]),
        next: fn(&mut M) -> Option<Addressed>,
        replied: fn(&mut M, u8, usize, Reply),
        phase: fn(&M) -> u8,
    ) -> Open<M> {
        let (fleet, old, requests) = (fleet.to_vec(), old.to_vec(), Vec::new());
        let mut open = Open { machine, next, replied, phase, fleet, old, requests };
        open.send();
        open
    }

    fn send(&mut self) {
        while let Some(request) = (self.next)(&mut self.machine) {
            self.requests.push(request);
        }
    }

    fn members(&self, side: Side) -> &[usize] {
        if side == Side::Old { &self.old } else { &self.fleet }
    }

    fn server(&self, (side, node, _): &Addressed) -> usize {
        self.members(*side)[*node]
    }

    /// The request to that server arrives, and so does its answer. `None` if there is none.
    pub fn at(&mut self, world: &mut World, server: usize) -> Option<Reply> {
        let to = |request: &Addressed| self.server(request) == server;
        let found = self.requests.iter().position(to)?;
        let (side, node, request) = self.requests.remove(found);
        let phase = (self.phase)(&self.machine);
        let reply = world.ask(&fleet(self.members(side)), server, &request);
        (self.replied)(&mut self.machine, phase, node, reply.clone());
        // Requests of an earlier phase are of no use any more.
        if (self.phase)(&self.machine) != phase {
            self.requests.clear();
        }
        self.send();
        Some(reply)
    }

    /// One request to each of these servers arrives, if there is one.
    pub fn heard_by(&mut self, world: &mut World, servers: &[usize]) {
        servers.iter().for_each(|server| drop(self.at(world, *server)));
    }

    /// The requests that are under way arrive, and their answers.
    pub fn round(&mut self, world: &mut World) {
        let servers: Vec<usize> = self.requests.iter().map(|to| self.server(to)).collect();
        self.heard_by(world, &servers);
    }

    /// Rounds until what is asked is to activate nodes.
    pub fn until_activation(&mut self, world: &mut World) {
        while !self.requests.is_empty() && !self.asks(|r| matches!(r, Request::Activate { .. })) {
            self.round(world);
        }
    }

    /// Everything that is asked is answered at once.
    pub fn all(&mut self, world: &mut World) {
        while !self.requests.is_empty() {
            self.round(world);
        }
    }

    fn asks(&self, what: impl Fn(&Request) -> bool) -> bool {
        self.requests.iter().any(|(_, _, request)| what(request))
    }
}

impl Open<Acquire> {
    pub fn token(&self, world: &World) -> Option<Token> {
        Some(self.machine.outcome(world.now)?.ok()?.locks.head.1)
    }
}
