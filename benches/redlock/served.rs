use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fencing::{Lease, Resource};
use http::StatusCode;
use support::redis::RedisServer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::contestant::{Contestant, TTL};
use crate::cpu::Cpu;
use crate::fleet::{self, Spent};
use crate::rounds::{median, turns};
use crate::serve::{Http, Service};
use crate::table::{Table, p50};

const WATCHED: Duration = Duration::from_secs(20);

#[derive(Clone)]
enum Call {
    Pair(Contestant, String),
    Renew(Arc<Lease>),
    RenewByHttp(Http, String),
}

impl Call {
    async fn once(&self) {
        match self {
            Call::Pair(contestant, name) => contestant.pair(name).await,
            Call::Renew(lease) => drop(lease.renew().await.unwrap()),
            Call::RenewByHttp(http, id) => assert_eq!(http.renew(id).await, Some(StatusCode::OK)),
        }
    }
}

fn start(options: &str) -> (Vec<RedisServer>, Service) {
    let servers = support::cli::started(support::redis::servers(5));
    let service = Service::start(&servers, options);
    (servers, service)
}

/// Acquire + release, and renewals, by one task and by 64, in this process and through a service.
pub async fn measure(rounds: usize, table: &mut Table) {
    // On a busy machine no answer shall be late: the cost of a failure is not measured here.
    let (servers, service) = start("--node-budget 2s");
    let redlock = Contestant::redlock(&fleet::urls(&servers));
    let contestants = [Contestant::Fencing(redlock.clone()), Contestant::Served(service.http.clone())];
    fleet::settle(&contestants).await;
    for tasks in [1, 64] {
        let pairs = |of: &Contestant| (0..tasks).map(|task| Call::Pair(of.clone(), format!("task/{task}"))).collect();
        compare(&format!("pair, {tasks} tasks"), contestants.each_ref().map(pairs), rounds, table).await;
        let mut renewals = [Vec::new(), Vec::new()];
        for task in 0..tasks {
            let name = format!("held/{tasks}/{task}");
            let lease = redlock.acquire(&Resource::new(&*name).unwrap()).await.unwrap();
            renewals[0].push(Call::Renew(Arc::new(lease)));
            let id = service.http.acquire(&format!("served/{tasks}/{task}"), "").await.unwrap();
            renewals[1].push(Call::RenewByHttp(service.http.clone(), id));
        }
        compare(&format!("renewal, {tasks} tasks"), renewals, rounds, table).await;
    }
}

/// Runs interleaved rounds of both, a task for each call.
async fn compare(figure: &str, of: [Vec<Call>; 2], rounds: usize, table: &mut Table) {
    let (mut times, mut rates) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for which in turns(rounds, 2) {
        let (start, before) = (Instant::now(), times[which].len());
        let mut tasks = JoinSet::new();
        for call in of[which].clone() {
            tasks.spawn(async move {
                let mut times = Vec::new();
                for _ in 0..100 {
                    let start = Instant::now();
                    call.once().await;
                    times.push(start.elapsed());
                }
                times
            });
        }
        times[which].extend(tasks.join_all().await.concat());
        rates[which].push((times[which].len() - before) as f64 / start.elapsed().as_secs_f64());
    }
    let [own, served] = times.map(|times| p50(&times));
    table.figure(&format!("{figure}, p50"), "us", &[("fencing", own), ("serve", served)]);
    let [own, served] = rates.map(median);
    table.figure(figure, "1/s", &[("fencing", own), ("serve", served)]);
}

/// Leases that clients hold, as those of clients/ do: renewed each third of the TTL, and soon after a failure.
struct Held {
    acquired: AtomicUsize,
    lost: AtomicUsize,
    is_over: AtomicBool,
    /// Requests at a time.
    turns: Semaphore,
}

impl Held {
    /// Acquires this many leases, and holds them until the end.
    async fn hold(http: &Http, number: usize) -> (Arc<Held>, JoinSet<()>) {
        let [acquired, lost] = [const { AtomicUsize::new(0) }; 2];
        let (is_over, turns) = (AtomicBool::new(false), Semaphore::new(64));
        let held = Arc::new(Held { acquired, lost, is_over, turns });
        let tasks = (0..number).map(|lease| Arc::clone(&held).one(http.clone(), format!("held/{lease}"))).collect();
        while held.acquired.load(Relaxed) < number {
            sleep(Duration::from_millis(10)).await;
        }
        (held, tasks)
    }

    async fn one(self: Arc<Held>, http: Http, name: String) {
        let turn = self.turns.acquire().await;
        let id = http.acquire(&name, "").await.expect("a free lock");
        drop(turn);
        self.acquired.fetch_add(1, Relaxed);
        let mut pause = TTL / 3;
        while !self.is_over.load(Relaxed) {
            sleep(pause).await;
            let _turn = self.turns.acquire().await;
            pause = match http.renew(&id).await {
                Some(StatusCode::OK) => TTL / 3,
                Some(StatusCode::NOT_FOUND | StatusCode::CONFLICT) => break,
                _ => TTL / 30,
            };
        }
        // What is not there any more was lost.
        if http.release(&id).await == Some(StatusCode::NOT_FOUND) {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    async fn end(&self, tasks: JoinSet<()>, table: &mut Table) {
        self.is_over.store(true, Relaxed);
        tasks.join_all().await;
        table.figure("leases lost", "number", &[("serve", self.lost.load(Relaxed) as f64)]);
    }
}

/// This many leases that are held through a service, and nothing else.
pub async fn held(number: usize, table: &mut Table) {
    let (servers, service) = start("--leases 20000");
    let (held, tasks) = Held::hold(&service.http, number).await;
    let serve = Cpu::Of(vec![service.process.pid()]);
    let (start, before) = (Spent::now(&servers), serve.so_far());
    sleep(WATCHED).await;
    let (spent, served) = (Spent::now(&servers).since(start), serve.so_far() - before);
    for (figure, time) in [("serve", served), ("five servers", spent.servers)] {
        let percent = time.as_secs_f64() * 100.0 / WATCHED.as_secs_f64();
        table.figure(&format!("{figure}, of a core"), "%", &[("serve", percent)]);
    }
    held.end(tasks, table).await;
}

/// Ten minutes of 200 leases that are held while others come and go: what the service takes after each.
pub async fn soak(table: &mut Table) {
    let (_servers, service) = start("");
    let (held, tasks) = Held::hold(&service.http, 200).await;
    let mut guests = JoinSet::new();
    (0..8).for_each(|guest| drop(guests.spawn(come_and_go(service.http.clone(), guest))));
    for minute in 1..=10 {
        sleep(Duration::from_secs(60)).await;
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.process.pid())).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let memory = memory.unwrap().parse().unwrap();
        table.figure(&format!("minute {minute}, memory"), "KiB", &[("serve", memory)]);
    }
    guests.abort_all();
    held.end(tasks, table).await;
}

/// Acquires and releases under ever new names. Some clients have a new connection, some never release, some give up.
async fn come_and_go(http: Http, guest: usize) {
    for turn in 0.. {
        let name = format!("guest/{guest}/{turn}");
        let own = if turn % 4 == 0 { http.with_own_connections() } else { http.clone() };
        let id = own.acquire(&name, r#"{"ttl_ms": 2000}"#).await;
        if turn % 8 == 1 {
            let _ =
                timeout(Duration::from_millis(20), http.with_own_connections().acquire(&name, r#"{"wait_ms": 60000}"#))
                    .await;
        }
        if let Some(id) = id.filter(|_| turn % 8 != 2) {
            let _ = own.release(&id).await;
        }
        sleep(Duration::from_millis(10)).await;
    }
}
