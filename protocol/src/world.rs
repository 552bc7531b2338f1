//! A few nodes and a client, for the directed schedules.

use std::time::Duration;

use super::*;
use crate::Resource;
use crate::Time;
use crate::Token;

pub(super) const TTL: Duration = Duration::from_secs(10);

pub(super) struct World {
    pub(super) nodes: Vec<(Incarnation, Store)>,
    pub(super) fleet: Fleet,
    pub(super) now: Time,
    pub(super) clock: Duration,
    next: u128,
}

impl World {
    pub(super) fn blank(nodes: usize) -> World {
        let node = |number| (Incarnation::new(&format!("life-{number}")), Store::default());
        let (now, clock) = (Time::default(), Duration::from_secs(1000));
        let nodes: Vec<_> = (0..nodes).map(node).collect();
        let fleet = Fleet::new((0..nodes.len()).map(|node| format!("n{node:02}"))).unwrap();
        World { nodes, fleet, now, clock, next: 1 }
    }

    pub(super) fn started(nodes: usize) -> World {
        let mut fleet = World::blank(nodes);
        fleet.readmit(0).unwrap();
        fleet.wait(Duration::from_secs(1));
        fleet
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.clock += time;
    }

    pub(super) fn fresh(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    pub(super) fn ask(&mut self, node: usize, request: &Request) -> Reply {
        let fleet = self.fleet.clone();
        self.ask_as(node, fleet, request)
    }

    pub(super) fn ask_as(&mut self, node: usize, fleet: Fleet, request: &Request) -> Reply {
        let (life, store) = &mut self.nodes[node];
        let me = Membership { incarnation: life.clone(), fleet };
        // Nodes that have been up for long: what is blank is new.
        let moment = Clocks { now: self.now, clock: self.clock, uptime: Duration::MAX };
        store.answer(&me, request, moment)
    }

    pub(super) fn restart(&mut self, node: usize, store: Store) {
        let life = self.fresh();
        self.nodes[node] = (Incarnation::new(&format!("life-{life}")), store);
    }

    pub(super) fn readmit_by(&mut self, order: Readmission) -> Result<(), ReadmitError> {
        let mut readmit = Readmit::new(self.nodes.len(), order);
        while let Some((node, request)) = readmit.next_request() {
            let phase = readmit.phase();
            let reply = self.ask(node, &request);
            readmit.on_reply(phase, node, Ok(reply));
        }
        readmit.outcome().expect("every request was answered")
    }

    pub(super) fn readmit(&mut self, target: usize) -> Result<(), ReadmitError> {
        let nonce = Nonce(self.fresh());
        self.readmit_by(readmission(target, nonce))
    }

    pub(super) fn attempt(&mut self) -> Attempt {
        let (lock_delay, drift) = (Duration::ZERO, Duration::from_millis(102));
        let terms = Terms { ttl: TTL, lock_delay, drift };
        Attempt { resource: resource(), owner: Owner(self.fresh()), mode: Mode::Exclusive, terms }
    }

    /// An attempt in which only `reached` nodes get the requests; the others time out.
    pub(super) fn acquire_on(&mut self, reached: &[usize]) -> (Owner, Result<Won, Lost>) {
        let attempt = self.attempt();
        let owner = attempt.owner;
        let mut acquire = Acquire::new(self.nodes.len(), NonEmpty::new(attempt), self.now);
        while let Some((node, request)) = acquire.next_request() {
            let reply = if reached.contains(&node) {
                Ok(self.ask(node, &request))
            } else {
                Err(Fault::TimedOut)
            };
            acquire.on_reply(node, reply);
        }
        (owner, acquire.outcome(self.now).expect("every request was answered"))
    }

    pub(super) fn release(&mut self, owner: Owner) -> ReleaseOutcome {
        let mut release = Release::new(self.nodes.len(), 1);
        for node in 0..self.nodes.len() {
            let reply = self.ask(node, &Request::Release { resource: resource(), owner });
            release.on_reply(node, Ok(reply));
        }
        release.outcome().expect("every node answered")
    }

    pub(super) fn lease_on(&mut self, reached: &[usize]) -> Token {
        let (owner, outcome) = self.acquire_on(reached);
        self.release(owner);
        outcome.unwrap().locks.head.1
    }

    /// A count runs out on the node: its counts are to be collected.
    pub(super) fn run_out(&mut self, node: usize) {
        let Attempt { owner, .. } = self.attempt();
        let full = Resource::new("full").unwrap();
        let acquire =
            Request::Acquire { mode: Mode::Exclusive, resource: full.clone(), owner, ttl: TTL };
        let Reply::Granted { stamp, nonce, .. } = self.ask(node, &acquire) else { panic!() };
        let token = Stamp { count: Stamp::MAX_COUNT, ..stamp }.token().unwrap();
        let publish = Request::Publish { resource: full.clone(), owner, nonce, token };
        assert_eq!(self.ask(node, &publish), Reply::Published);
        self.ask(node, &Request::Release { resource: full, owner });
        assert_eq!(self.ask(node, &acquire), Reply::Exhausted);
    }

    pub(super) fn era(&mut self, node: usize) -> u64 {
        let Reply::State(state) = self.ask(node, &Request::Read) else { panic!() };
        state.era
    }
}

pub(super) fn readmission(target: usize, nonce: Nonce) -> Readmission {
    let (collect, strict, assume_no_locks) = (false, false, false);
    Readmission { target, collect, nonce, longest: TTL, strict, assume_no_locks }
}

pub(super) fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}
