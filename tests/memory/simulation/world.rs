use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencing::{Redlock, Resource};
use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

use crate::simulation::client::{Client, Storage};
use crate::simulation::nemesis::Nemesis;
use crate::simulation::trace::Trace;
use crate::simulation::wire::{Weather, Wire};
use support::clock::TokioClock;
use support::history::{Event, Report};

const CLIENTS: usize = 3;

pub struct Run {
    pub report: Report,
    pub hash: u64,
    pub faults: BTreeMap<&'static str, u64>,
}

pub fn run(seed: u64, guarded: bool) -> Run {
    fencing::testing::seed(Some(seed));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let run = runtime.block_on(world(seed, guarded));
    drop(runtime);
    fencing::testing::seed(None);
    run
}

async fn world(seed: u64, guarded: bool) -> Run {
    let mut rng = fastrand::Rng::with_seed(seed);
    let trace = Trace::new();
    let nodes = if rng.bool() { 3 } else { 5 };
    let ttl = Duration::from_millis(rng.u64(400..2000));
    let wire = Wire::new(rng.u64(..), trace.clone(), nodes, CLIENTS);
    let storage = Storage::new(guarded, trace.clone());
    let resources: Vec<Resource> =
        ["a", "b"].iter().take(rng.usize(1..=2)).map(|name| Resource::new(*name).unwrap()).collect();
    let clock = TokioClock::new();
    let clocks: Vec<TokioClock> = (0..CLIENTS).map(|_| clock.apart()).collect();
    let mut client = |number: usize| {
        let renews = rng.bool();
        let wait = Duration::from_millis(rng.u64(500..5000));
        let lock_delay = Duration::from_millis(if rng.bool() { 0 } else { 300 });
        let redlock = Redlock::builder().nodes(wire.nodes_of(number)).clock(clocks[number].clone()).ttl(ttl).wait(wait);
        let redlock = redlock.retry_delay(Duration::from_millis(200)).lock_delay(lock_delay).renew(renews);
        let redlock = redlock.build().unwrap();
        let (wire, storage, resources) = (Arc::clone(&wire), storage.clone(), resources.clone());
        let (rng, together, shares) = (rng.fork(), seed % 2 == 1, seed % 4 >= 2);
        Client { number, wire, storage, redlock, resources, ttl, renews, rng, writes: 0, together, shares }
    };
    let clients: Vec<Client> = (0..CLIENTS).map(&mut client).collect();
    let ahead = vec![0; nodes];
    let mut nemesis = Nemesis { wire: Arc::clone(&wire), rng: rng.fork(), ttl, resources, clocks, ahead };

    let end = Instant::now() + Duration::from_secs(25);
    let work = |mut client: Client| {
        let gate = wire.clients[client.number].clone();
        tokio::spawn(async move {
            gate.during(client.work(end)).await;
            client
        })
    };
    let working: Vec<_> = clients.into_iter().map(work).collect();
    // Nodes that were never admitted remember nothing yet.
    sleep(Duration::from_secs(3)).await;
    nemesis.work(end).await;
    let clients = try_join_all(working).await.unwrap();
    // The longest fault ends by itself.
    sleep(Duration::from_secs(9)).await;
    heal(&wire);
    let recovering: Vec<_> =
        clients.into_iter().map(|mut client| tokio::spawn(async move { client.recover().await })).collect();
    try_join_all(recovering).await.unwrap();
    // What is still on its way to the storage arrives.
    sleep(Duration::from_secs(10)).await;
    let (history, hash, faults) = trace.end();
    Run { report: Report::new(seed, &history), hash, faults }
}

fn heal(wire: &Wire) {
    assert!(wire.nodes.iter().all(|machine| !machine.gate.is_stopped()));
    assert!(wire.nodes.iter().all(|machine| !machine.down.load(Ordering::SeqCst)));
    assert!(wire.is_whole());
    *wire.weather.lock().unwrap() = Weather::default();
    let at = wire.trace.note("healed");
    wire.trace.event(Event::Healed(at));
}
