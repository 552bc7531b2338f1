//! Who makes the faults: five at a time, one for each kind of victim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::client::now;
use crate::engine::Members;
use crate::faults::Fault;
use crate::list::List;
use crate::nodes;
use crate::proxy::Weather;
use support::history::{Answer, Event, History, Invariant, Report};
use support::process::signal;
use support::redis::RedisServer;

/// What they share.
pub struct Nemesis {
    pub faults: Vec<Fault>,
    pub seed: u64,
    pub servers: Vec<Mutex<RedisServer>>,
    /// Three members in place of the servers.
    pub engine: Option<Mutex<Members>>,
    pub list: List,
    pub weather: Vec<Arc<Weather>>,
    pub storages: Vec<u32>,
    pub stop: AtomicBool,
    pub counts: Mutex<BTreeMap<Fault, u64>>,
    pub events: Mutex<Vec<Event>>,
    /// What must not be and is no matter of the history.
    pub failures: Mutex<Vec<String>>,
}

impl Nemesis {
    /// One thread for each kind; they end when told to.
    pub fn start(self: &Arc<Nemesis>) -> Vec<std::thread::JoinHandle<()>> {
        let engine = self.engine.is_some();
        let kinds: [&dyn Fn(&Fault) -> bool; 5] = [
            &|fault| !engine && (fault.forgets() || *fault == Fault::Clock),
            &|fault| {
                let apart = fault.forgets() || matches!(fault, Fault::Clock | Fault::Move);
                fault.is_to_servers() && (engine || !apart)
            },
            &|fault| fault.is_to_the_network(),
            &|fault| *fault == Fault::StopStorage,
            &|fault| *fault == Fault::Move,
        ];
        let of = |kind| self.faults.iter().copied().filter(kind).collect::<Vec<Fault>>();
        let kinds = (0..).zip(kinds.map(of)).filter(|(_, faults)| !faults.is_empty());
        let work = |(number, faults): (u64, Vec<Fault>)| {
            let (nemesis, seed) = (Arc::clone(self), self.seed ^ (number << 32));
            std::thread::spawn(move || nemesis.work(&faults, seed))
        };
        kinds.map(work).collect()
    }

    fn work(&self, faults: &[Fault], seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        while !self.stop.load(Ordering::SeqCst) {
            let fault = faults[rng.usize(0..faults.len())];
            self.count(fault);
            self.make(fault, &mut rng);
            let rest = match fault {
                Fault::Move => 3,
                // Nobody locks for a while after one.
                Fault::Restore => 10,
                _ => 1,
            };
            std::thread::sleep(Duration::from_millis(rest * rng.u64(300..2000)));
        }
    }

    pub fn count(&self, fault: Fault) {
        *self.counts.lock().entry(fault).or_default() += 1;
    }

    pub fn first_leases(&self, clients: usize) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(180);
        let leased = || {
            let history = self.history();
            let leases = history.attempts().filter(|attempt| attempt.outcome.token().is_some());
            leases.map(|attempt| attempt.client).collect::<BTreeSet<u32>>().len()
        };
        while leased() < clients {
            if Instant::now() >= end {
                return Err("not every client got a lease before any fault".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Whether a client has got no lease alone or not written since all was healed.
    pub fn recovers(&self) -> bool {
        Report::new(self.seed, &self.history()).violates(Invariant::I6)
    }

    /// What the clients have said so far, and what was done to all of them.
    pub fn history(&self) -> History {
        History { events: self.events.lock().clone(), ..History::default() }
    }

    pub fn progress(&self) -> String {
        let history = self.history();
        let leases = history.attempts().filter(|attempt| attempt.outcome.token().is_some()).count();
        let writes = history.writes().count();
        let refused = history.writes().filter(|write| matches!(write.answer, Answer::Refused(_))).count();
        let faults: u64 = self.counts.lock().values().sum();
        format!("{faults} faults, {leases} leases, {writes} writes, {refused} of them stale, refused")
    }

    pub fn stops_clients(&self) -> bool {
        !self.stop.load(Ordering::SeqCst) && self.faults.contains(&Fault::StopClient)
    }

    /// No fault is left after this.
    pub fn heal(&self) {
        for server in &self.servers {
            // Whatever was to last until a time that is far ahead is over.
            server.lock().set_clock(5000);
        }
        self.events.lock().push(Event::Healed(now()));
    }

    fn server(&self, rng: &mut fastrand::Rng) -> MutexGuard<'_, RedisServer> {
        self.servers[rng.usize(0..self.servers.len())].lock()
    }

    fn make(&self, fault: Fault, rng: &mut fastrand::Rng) {
        if let Some(engine) = self.engine.as_ref().filter(|_| fault.is_to_servers()) {
            return self.harm(&mut engine.lock(), fault, rng);
        }
        let time = Duration::from_millis(rng.u64(20..1500));
        match fault {
            Fault::StopClient => {}
            Fault::StopStorage => stopped(self.storages[rng.usize(0..self.storages.len())], time / 2),
            Fault::StopNode => stopped(self.server(rng).pid(), time),
            Fault::StopMajority => self.majority(time, rng),
            Fault::PauseWrites => {
                let time = time.as_millis().to_string();
                self.server(rng).cli(&["CLIENT", "PAUSE", &time, "WRITE"]);
            }
            Fault::FlushScripts => {
                for _ in 0..20 {
                    for server in &self.servers {
                        server.lock().cli(&["SCRIPT", "FLUSH"]);
                    }
                }
            }
            Fault::Clock => {
                // One of eight jumps by an hour, and back.
                let far = if rng.u8(0..8) == 0 { rng.i64(-3600..=3600) } else { 0 };
                let node = rng.usize(0..self.servers.len());
                let near = rng.i64(-8..=8);
                self.servers[node].lock().set_clock(near + far);
                if far != 0 {
                    std::thread::sleep(time);
                    let server = self.servers[node].lock();
                    server.set_clock(near);
                    // A pause ends by this clock: it would last for the hour.
                    server.cli(&["CLIENT", "UNPAUSE"]);
                }
            }
            Fault::Move => {
                let has_left = |node: usize| nodes::has_left(&self.servers[node].lock());
                let moved = self.list.change(rng, has_left);
                self.failures.lock().extend(moved.err());
            }
            fault if fault.forgets() => self.forget(fault, rng),
            fault => self.weather(fault, time, rng),
        }
    }

    fn forget(&self, fault: Fault, rng: &mut fastrand::Rng) {
        let members = self.list.members();
        let node = members[rng.usize(0..members.len())];
        nodes::forget(&mut self.servers[node].lock(), fault, rng);
        let members = || self.list.members();
        if !nodes::is_back(&self.servers[node], node, members, Duration::from_secs(120)) {
            let states = self.servers.iter().map(|server| nodes::state(&server.lock()));
            let states = states.map(|state| format!("\n  {state}")).collect::<String>();
            let failure = format!("node {node} did not come back after {}{states}", fault.name());
            self.failures.lock().push(failure);
        }
    }

    fn majority(&self, time: Duration, rng: &mut fastrand::Rng) {
        // Of the nodes as they are, and as they stay meanwhile: nobody can have got a lease.
        let _turn = self.list.hold();
        let mut order = self.list.members();
        rng.shuffle(&mut order);
        order.truncate(order.len() / 2 + 1);
        // In one order, as others may wait for two of them as well.
        order.sort_unstable();
        let servers: Vec<_> = order.iter().map(|node| self.servers[*node].lock()).collect();
        servers.iter().for_each(|server| server.signal("STOP"));
        let from = now();
        std::thread::sleep(time);
        let to = now();
        servers.iter().for_each(|server| server.signal("CONT"));
        self.events.lock().push(Event::Outage { client: None, from, to });
    }

    fn weather(&self, fault: Fault, time: Duration, rng: &mut fastrand::Rng) {
        // Nothing undoes what keeps clients away from members that are restored.
        let _turn = self.engine.as_ref().map(|_| self.list.hold());
        // A minority, so that work goes on.
        let mut nodes: Vec<&Arc<Weather>> = self.weather.iter().collect();
        rng.shuffle(&mut nodes);
        let most = (nodes.len().saturating_sub(1) / 2).clamp(1, 2);
        nodes.truncate(rng.usize(1..=most));
        for weather in &nodes {
            weather.set(Some((fault, Duration::from_millis(rng.u64(5..120)))));
        }
        std::thread::sleep(time);
        nodes.iter().for_each(|weather| weather.set(None));
    }
}

/// SIGSTOP of a process that we have started, and SIGCONT after this time.
pub fn stopped(pid: u32, time: Duration) {
    signal(pid, "STOP");
    std::thread::sleep(time);
    signal(pid, "CONT");
}
