use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use parking_lot::Mutex;

use crate::args::Args;
use crate::client::{Orders, now};
use crate::engine::Members;
use crate::faults::Fault;
use crate::list::List;
use crate::nemesis::{Nemesis, stopped};
use crate::nodes;
use crate::proxy::{Place, proxy};
use crate::storage::Storage;
use support::history::{Event, Report, commit};

const TTL: Duration = Duration::from_millis(700);
/// The shortest that etcd takes.
const ENGINE_TTL: Duration = Duration::from_secs(2);

/// Leases and stale writes per minute below which a run shows nothing.
const LEAST_LEASES: f64 = 30.0;
const LEAST_STALE: f64 = 10.0;

/// Runs it all, and says whether nothing was found.
pub async fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let seed = args.seed.unwrap_or_else(now);
    println!("seed {seed}, commit {}, {} minutes", commit(), args.minutes);
    let engine = args.engine.map(Members::start);
    let ttl = if engine.is_some() { ENGINE_TTL } else { TTL };
    let servers = if engine.is_none() { nodes::start() } else { Vec::new() };
    let sockets = servers.iter().map(|server| Place::Socket(server.lock().socket()));
    let addresses = engine.iter().flat_map(Members::hosts).map(Place::Address);
    let (mut proxies, mut weather) = (Vec::new(), Vec::new());
    for place in sockets.chain(addresses) {
        let (port, switches) = proxy(place, engine.is_some()).await?;
        proxies.push(format!("127.0.0.1:{port}"));
        weather.push(switches);
    }
    let mut storages = vec![Storage::sqlite(args.unguarded).await?];
    if args.postgres {
        storages.push(Storage::postgres(args.unguarded).await?);
    }
    let folder = tempfile::tempdir()?;
    let urls: Vec<String> = proxies.iter().map(|host| format!("redis://{host}")).collect();
    let list = List::new(&urls, ttl, folder.path());
    let file = list.file().to_owned();
    if let Some(engine) = &engine {
        std::fs::write(&file, engine.url(&proxies))?;
    }
    let nemesis = Arc::new(Nemesis {
        faults: chosen(args),
        seed,
        servers,
        engine: engine.map(Mutex::new),
        list,
        weather,
        storages: storages.iter().map(|storage| storage.service.pid()).collect(),
        stop: false.into(),
        counts: Mutex::default(),
        events: Mutex::default(),
        failures: Mutex::default(),
    });
    // Two, wherever they are stored: some clients lock both with one call.
    let files = (0..2).zip(storages.iter().cycle()).map(|(n, storage)| (format!("files/{n}"), storage.address.clone()));
    let orders = Orders { number: 0, seed, nodes: file, ttl, files: files.collect() };
    let clients = Clients::start(args.clients, args.verbose, &orders, &nemesis)?;
    // A fleet that starts remembers nothing yet.
    nemesis.first_leases(args.clients as usize)?;
    work(args, &nemesis).await;

    clients.end();
    let mut history = nemesis.history();
    for storage in &storages {
        let (accepted, stored) = storage.read().await?;
        history.accepted.extend(accepted);
        history.stored.extend(stored);
    }
    Ok(passed(args, &Report::new(seed, &history), &nemesis))
}

/// Faults for as long as told; then some time to recover.
async fn work(args: &Args, nemesis: &Arc<Nemesis>) {
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(args.minutes * 60.0);
    let threads = nemesis.start();
    let interrupted = tokio::signal::ctrl_c();
    let mut interrupted = std::pin::pin!(interrupted);
    while Instant::now() < end {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
            _ = &mut interrupted => break,
        }
        println!("{:>5} s  {}", start.elapsed().as_secs(), nemesis.progress());
    }
    nemesis.stop.store(true, Ordering::SeqCst);
    for thread in threads {
        if tokio::task::spawn_blocking(|| thread.join()).await.is_ok_and(|ended| ended.is_err()) {
            nemesis.failures.lock().push("the nemesis has failed".into());
        }
    }
    nemesis.heal();
    println!("{:>5} s  healed", start.elapsed().as_secs());
    // The checker says who has not: here only for how long that is waited for.
    let patience = Instant::now() + Duration::from_secs(180);
    while nemesis.recovers() && Instant::now() < patience {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Prints the table. Whether nothing was found in enough work.
fn passed(args: &Args, report: &Report, nemesis: &Nemesis) -> bool {
    for (fault, count) in &*nemesis.counts.lock() {
        println!("{count:>10} {}", fault.name());
    }
    println!("{report}");
    let failures = nemesis.failures.lock();
    failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    let leases = report.leases as f64 >= LEAST_LEASES * args.minutes;
    let stale = report.stale as f64 >= LEAST_STALE * args.minutes || !nemesis.faults.contains(&Fault::StopClient);
    if !leases || !stale {
        println!("FAILED: too little work to show anything");
    }
    report.violations.is_empty() && failures.is_empty() && leases && stale
}

/// The faults that can be done and were asked for.
fn chosen(args: &Args) -> Vec<Fault> {
    let all = args.faults.is_empty();
    let mut faults = Fault::value_variants().to_vec();
    faults.retain(|fault| {
        let asked_for = (all || args.faults.contains(fault)) && !args.without.contains(fault);
        asked_for && fault.is_of(args.engine.is_some())
    });
    faults
}

/// The client processes and what they have said.
struct Clients {
    children: Vec<Child>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl Clients {
    fn start(count: u32, verbose: bool, orders: &Orders, nemesis: &Arc<Nemesis>) -> Result<Clients, Box<dyn Error>> {
        let mut clients = Clients { children: Vec::new(), readers: Vec::new() };
        for number in 0..count {
            let seed = orders.seed.wrapping_add(u64::from(number) + 1);
            let orders = Orders { number, seed, ..orders.clone() };
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("--client").arg(serde_json::to_string(&orders)?);
            command.args(verbose.then_some("--verbose"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let output = BufReader::new(child.stdout.take().ok_or("no output")?);
            let (pid, ttl, nemesis) = (child.id(), orders.ttl, Arc::clone(nemesis));
            clients.children.push(child);
            clients.readers.push(std::thread::spawn(move || listen(output, pid, seed, ttl, &nemesis)));
        }
        Ok(clients)
    }

    /// Lets each finish what it is at.
    fn end(mut self) {
        self.children.iter_mut().for_each(|child| drop(child.stdin.take()));
        self.readers.drain(..).for_each(|reader| drop(reader.join()));
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Takes down what one client says, and stops it now and then when it has got a lease.
fn listen(output: impl BufRead, pid: u32, seed: u64, ttl: Duration, nemesis: &Nemesis) {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5709);
    for line in output.lines().map_while(Result::ok) {
        let Ok(event) = serde_json::from_str::<Event>(&line) else { continue };
        let granted = matches!(&event, Event::Attempt(a) if a.outcome.token().is_some());
        nemesis.events.lock().push(event);
        if granted && nemesis.stops_clients() && rng.u8(0..4) == 0 {
            nemesis.count(Fault::StopClient);
            stopped(pid, ttl.mul_f64(0.5 + 3.5 * rng.f64()));
        }
    }
}
