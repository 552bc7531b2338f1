use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencing::Resource;
use tokio::time::{Instant, sleep};

use crate::simulation::wire::{Weather, Wire};
use support::clock::TokioClock;
use support::history::Event;

pub struct Nemesis {
    pub wire: Arc<Wire>,
    pub rng: fastrand::Rng,
    pub ttl: Duration,
    pub resources: Vec<Resource>,
    /// The clocks of the clients' machines, which run on while those are suspended.
    pub clocks: Vec<TokioClock>,
    /// How far ahead the nodes' clocks are, in seconds.
    pub ahead: Vec<i64>,
}

impl Nemesis {
    pub async fn work(&mut self, end: Instant) {
        while Instant::now() < end {
            self.fault();
            sleep(self.time(50, 1500)).await;
        }
    }

    fn time(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(least..most))
    }

    /// Later, whatever else happens.
    fn after(&self, time: Duration, undo: impl FnOnce(&Wire) + Send + 'static) {
        let wire = Arc::clone(&self.wire);
        tokio::spawn(async move {
            sleep(time).await;
            undo(&wire);
        });
    }

    fn fault(&mut self) {
        let wire = Arc::clone(&self.wire);
        let (nodes, clients) = (wire.nodes.len(), wire.clients.len());
        let (node, client) = (self.rng.usize(0..nodes), self.rng.usize(0..clients));
        let short = self.time(30, 3000);
        match self.rng.u8(0..15) {
            0 => {
                wire.trace.fault("client stopped");
                wire.clients[client].stop(self.ttl * self.rng.u32(1..5));
            }
            1 => {
                wire.trace.fault("client suspended");
                wire.clients[client].stop(short);
                self.clocks[client].jump(self.rng.i64(1..10));
            }
            2 => {
                wire.trace.fault("node stopped");
                wire.nodes[node].gate.stop(short);
            }
            3 => self.majority_stopped(short / 2),
            4 => self.isolated(client, short),
            5 | 6 => self.forget(node),
            7 => {
                wire.trace.fault("lock vanished");
                let resource = self.rng.usize(0..self.resources.len());
                wire.nodes[node].node.expire(&self.resources[resource]);
            }
            8 => {
                let to = self.rng.i64(-5..=20);
                wire.trace.fault(if to < self.ahead[node] { "clock back" } else { "clock ahead" });
                wire.nodes[node].clock.jump(to - self.ahead[node]);
                self.ahead[node] = to;
            }
            9 | 10 => {
                wire.trace.fault("one-way partition");
                let there = self.rng.bool();
                wire.part(client, node, there, true);
                self.after(short, move |wire| wire.part(client, node, there, false));
            }
            11 => {
                wire.trace.fault("connection cut");
                wire.cut(client, node);
            }
            12 => self.weather("messages lost", Weather { lose: 15, ..Weather::default() }),
            13 => self.weather("messages repeated", Weather { repeat: 50, ..Weather::default() }),
            _ => self.weather("messages late", Weather { slowest: 70, ..Weather::default() }),
        }
    }

    fn weather(&mut self, name: &'static str, weather: Weather) {
        self.wire.trace.fault(name);
        *self.wire.weather.lock().unwrap() = weather;
        let time = self.time(200, 4000);
        self.after(time, |wire| *wire.weather.lock().unwrap() = Weather::default());
    }

    /// Never more than a minority at once, which is what the order rests on.
    fn forget(&mut self, node: usize) {
        let wire = &self.wire;
        if wire.forgotten() >= (wire.nodes.len() - 1) / 2 {
            return;
        }
        match self.rng.u8(0..3) {
            0 => {
                wire.trace.fault("node flushed");
                wire.nodes[node].node.flush();
            }
            1 => {
                wire.trace.fault("node restarted");
                wire.nodes[node].node.restart();
            }
            _ => {
                wire.trace.fault("node down");
                wire.nodes[node].node.restart();
                wire.nodes[node].down.store(true, Ordering::SeqCst);
                let time = self.time(50, 3000);
                self.after(time, move |wire| wire.nodes[node].down.store(false, Ordering::SeqCst));
            }
        }
    }

    fn majority_stopped(&mut self, time: Duration) {
        let wire = Arc::clone(&self.wire);
        let stopped: Vec<usize> = self.some_majority();
        if stopped.iter().any(|node| wire.nodes[*node].gate.is_stopped()) {
            return;
        }
        wire.trace.fault("majority stopped");
        stopped.iter().for_each(|node| wire.nodes[*node].gate.stop(time));
        let from = wire.trace.note("outage");
        // A millisecond before they go on.
        self.after(time.saturating_sub(Duration::from_millis(2)), move |wire| {
            let to = wire.trace.note("outage ends");
            wire.trace.event(Event::Outage { client: None, from, to });
        });
    }

    fn isolated(&mut self, client: usize, time: Duration) {
        let wire = Arc::clone(&self.wire);
        wire.trace.fault("client isolated one way");
        let there = self.rng.bool();
        let nodes = self.some_majority();
        nodes.iter().for_each(|node| wire.part(client, *node, there, true));
        let from = wire.trace.note("isolated");
        self.after(time, move |wire| {
            let to = wire.trace.note("isolated no more");
            wire.trace.event(Event::Outage { client: Some(client as u32), from, to });
            nodes.iter().for_each(|node| wire.part(client, *node, there, false));
        });
    }

    fn some_majority(&mut self) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.wire.nodes.len()).collect();
        self.rng.shuffle(&mut nodes);
        nodes.truncate(self.wire.nodes.len() / 2 + 1);
        nodes
    }
}
