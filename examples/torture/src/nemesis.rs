//! Who makes the faults: five at a time, one for each kind of victim.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::client::now;
use crate::faults::Fault;
use crate::list::List;
use crate::nodes;
use crate::proxy::Weather;
use support::history::{Answer, Event, Outcome};
use support::redis::RedisServer;

/// What they share.
pub struct Nemesis {
    pub faults: Vec<Fault>,
    pub seed: u64,
    /// None of ours: nothing is done to them.
    pub servers: Vec<Mutex<RedisServer>>,
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
        let kinds: [fn(&Fault) -> bool; 5] = [
            |fault| fault.forgets() || *fault == Fault::Clock,
            |fault| {
                let apart = fault.forgets() || matches!(fault, Fault::Clock | Fault::Move);
                fault.is_to_servers() && !apart
            },
            |fault| fault.is_to_the_network(),
            |fault| *fault == Fault::StopStorage,
            |fault| *fault == Fault::Move,
        ];
        let mut threads = Vec::new();
        for (number, kind) in (0..).zip(kinds) {
            let faults: Vec<Fault> = self.faults.iter().copied().filter(kind).collect();
            if faults.is_empty() {
                continue;
            }
            let (nemesis, seed) = (Arc::clone(self), self.seed ^ (number << 32));
            threads.push(std::thread::spawn(move || nemesis.work(&faults, seed)));
        }
        threads
    }

    fn work(&self, faults: &[Fault], seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        while !self.stop.load(Ordering::SeqCst) {
            let fault = faults[rng.usize(0..faults.len())];
            self.count(fault);
            self.make(fault, &mut rng);
            let rest = if fault == Fault::Move { 3 } else { 1 };
            std::thread::sleep(Duration::from_millis(rest * rng.u64(300..2000)));
        }
    }

    pub fn count(&self, fault: Fault) {
        *self.counts.lock().entry(fault).or_default() += 1;
    }

    /// Waits until so many clients have had a lease.
    pub fn first_leases(&self, clients: usize) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(180);
        while Instant::now() < end {
            let events = self.events.lock();
            let leased = events.iter().filter_map(|event| match event {
                Event::Attempt(a) if a.outcome.token().is_some() => Some(a.client),
                _ => None,
            });
            if leased.collect::<BTreeSet<_>>().len() >= clients {
                return Ok(());
            }
            drop(events);
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("not every client got a lease before any fault".into())
    }

    /// Whether every client has got a lease alone and written since it was healed.
    pub fn recovered(&self, clients: u32) -> bool {
        let events = self.events.lock();
        let healed = events.iter().rposition(|event| matches!(event, Event::Healed(_)));
        let since = &events[healed.unwrap_or(0)..];
        let at = since.iter().find_map(|event| match event {
            Event::Healed(at) => Some(*at),
            _ => None,
        });
        let mut leased = BTreeSet::new();
        let mut written = BTreeSet::new();
        for event in since {
            match event {
                Event::Attempt(a)
                    if matches!(a.outcome, Outcome::Granted(_)) && Some(a.asked) >= at =>
                {
                    leased.insert(a.client);
                }
                Event::Write(w) if w.answer == Answer::Accepted && Some(w.sent) >= at => {
                    written.insert(w.client);
                }
                _ => {}
            }
        }
        leased.intersection(&written).count() == clients as usize
    }

    pub fn progress(&self) -> String {
        let (mut leases, mut writes, mut refused) = (0, 0, 0);
        for event in &*self.events.lock() {
            match event {
                Event::Attempt(a) => leases += u64::from(a.outcome.token().is_some()),
                Event::Write(write) => {
                    writes += 1;
                    refused += u64::from(matches!(write.answer, Answer::Refused(_)));
                }
                _ => {}
            }
        }
        let faults: u64 = self.counts.lock().values().sum();
        format!(
            "{faults} faults, {leases} leases, {writes} writes, {refused} of them stale, refused"
        )
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

    fn server(&self, rng: &mut fastrand::Rng) -> (usize, MutexGuard<'_, RedisServer>) {
        let node = rng.usize(0..self.servers.len());
        (node, self.servers[node].lock())
    }

    fn make(&self, fault: Fault, rng: &mut fastrand::Rng) {
        let time = Duration::from_millis(rng.u64(20..1500));
        match fault {
            Fault::StopClient => {}
            Fault::StopStorage => {
                let pid = self.storages[rng.usize(0..self.storages.len())];
                stopped(pid, time / 2);
            }
            Fault::StopNode => {
                let (_, server) = self.server(rng);
                stopped(server.pid(), time);
            }
            Fault::StopMajority => self.majority(time, rng),
            Fault::PauseWrites => {
                let time = time.as_millis().to_string();
                self.server(rng).1.cli(&["CLIENT", "PAUSE", &time, "WRITE"]);
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
                if let Err(failure) = self.list.change(rng, |node| self.has_left(node)) {
                    self.failures.lock().push(failure);
                }
            }
            fault if fault.forgets() => self.forget(fault, rng),
            fault => self.weather(fault, time, rng),
        }
    }

    fn has_left(&self, node: usize) -> bool {
        nodes::has_left(&self.servers[node].lock())
    }

    fn forget(&self, fault: Fault, rng: &mut fastrand::Rng) {
        let members = self.list.members();
        let node = members[rng.usize(0..members.len())];
        {
            let mut server = self.servers[node].lock();
            nodes::forget(&mut server, fault, rng);
        }
        let members = || self.list.members();
        if !nodes::is_back(&self.servers[node], node, members, Duration::from_secs(120)) {
            let mut failure = format!("node {node} did not come back after {}", fault.name());
            for server in &self.servers {
                failure.push_str(&format!("\n  {}", nodes::state(&server.lock())));
            }
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
        // A minority, so that work goes on.
        let mut nodes: Vec<usize> = (0..self.weather.len()).collect();
        rng.shuffle(&mut nodes);
        let most = (self.weather.len().saturating_sub(1) / 2).clamp(1, 2);
        nodes.truncate(rng.usize(1..=most));
        for node in &nodes {
            self.switch(&self.weather[*node], fault, true, rng);
        }
        std::thread::sleep(time);
        for node in &nodes {
            self.switch(&self.weather[*node], fault, false, rng);
        }
    }

    fn switch(&self, weather: &Weather, fault: Fault, on: bool, rng: &mut fastrand::Rng) {
        match fault {
            Fault::LoseRequests => weather.lose_requests.store(on, Ordering::SeqCst),
            Fault::LoseReplies => weather.lose_replies.store(on, Ordering::SeqCst),
            Fault::Cut => weather.cut.store(on, Ordering::SeqCst),
            Fault::Repeat => weather.repeat.store(on, Ordering::SeqCst),
            _ => weather.delay.store(if on { rng.u64(5..120) } else { 0 }, Ordering::SeqCst),
        }
    }
}

/// SIGSTOP of a process that we have started, and SIGCONT after this time.
pub fn stopped(pid: u32, time: Duration) {
    signal(pid, "STOP");
    std::thread::sleep(time);
    signal(pid, "CONT");
}

fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
}
