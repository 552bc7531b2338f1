//! Client processes that take and hold leases while their nodes change.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use support::history::{Attempt, Event, History, Outcome, Report};
use tempfile::TempDir;

use crate::fleet::place::*;

/// One after another, each under `fencing run` with the list that it has at the time.
#[derive(Default)]
struct Client {
    list: Mutex<String>,
    /// Leases under the list that it has.
    leases: AtomicUsize,
    /// How often it was told that the nodes are of another fleet, since it got its list.
    sent_away: AtomicUsize,
}

pub struct Crew {
    clients: Vec<Arc<Client>>,
    threads: Vec<JoinHandle<Vec<Event>>>,
    stop: Arc<AtomicBool>,
    _folder: TempDir,
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

impl Crew {
    pub fn start(count: u32, list: &str) -> Crew {
        let folder = tempfile::tempdir().unwrap();
        let stop = Arc::<AtomicBool>::default();
        let (mut clients, mut threads) = (Vec::new(), Vec::new());
        for number in 0..count {
            let list = Mutex::new(list.to_owned());
            let client = Arc::new(Client { list, ..Client::default() });
            let (it, stop) = (Arc::clone(&client), Arc::clone(&stop));
            let file = folder.path().join(format!("client-{number}"));
            threads.push(std::thread::spawn(move || it.work(number, file, &stop)));
            clients.push(client);
        }
        Crew { clients, threads, stop, _folder: folder }
    }

    pub fn each_has_had(&self, leases: usize) {
        for number in 0..self.clients.len() {
            self.until(number, "a lease", |client| client.leases.load(Ordering::SeqCst) >= leases);
        }
    }

    /// One client gets another list, as in a rolling deploy, and has a lease under it.
    pub fn restart(&self, number: usize, list: &str) {
        let client = &self.clients[number];
        let mut own = client.list.lock().unwrap();
        list.clone_into(&mut own);
        client.leases.store(0, Ordering::SeqCst);
        client.sent_away.store(0, Ordering::SeqCst);
        drop(own);
        self.until(number, "a lease", |client| client.leases.load(Ordering::SeqCst) > 0);
        assert_eq!(client.sent_away.load(Ordering::SeqCst), 0);
    }

    pub fn is_sent_away(&self, number: usize) {
        let sent_away = |client: &Client| client.sent_away.load(Ordering::SeqCst);
        let before = sent_away(&self.clients[number]);
        self.until(number, "somebody says it", |client| sent_away(client) > before);
    }

    fn until(&self, number: usize, what: &str, condition: impl Fn(&Client) -> bool) {
        until(&format!("{what}: client {number}"), || {
            assert!(!self.threads.iter().any(JoinHandle::is_finished), "a client has failed");
            condition(&self.clients[number])
        });
    }

    /// Stops all, and checks the order of all tokens: I1 and I2. Says how many there were.
    pub fn check(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        let mut history = History::default();
        for thread in self.threads {
            history.events.extend(thread.join().unwrap());
        }
        let report = Report::new(0, &history);
        assert!(report.violations.is_empty(), "{report}");
        report.leases
    }
}

impl Client {
    fn work(&self, number: u32, file: PathBuf, stop: &AtomicBool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rng = fastrand::Rng::with_seed(u64::from(number));
        while !stop.load(Ordering::SeqCst) {
            let list = self.list.lock().unwrap().clone();
            let _ = std::fs::remove_file(&file);
            let (note, pause) = (file.display(), rng.u8(1..4));
            let script = format!("echo $FENCING_TOKEN $(date +%s%N) > {note}; sleep 0.{pause}");
            let asked = now();
            let ended = finish(run(&list, "--ttl 4s --node-budget 1s", &script));
            let granted = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some((token, answered)) = granted.trim().split_once(' ') {
                events.push(Event::Attempt(Attempt {
                    client: number,
                    resource: "invoice/42".to_owned(),
                    asked,
                    answered: answered.parse().unwrap(),
                    outcome: Outcome::Granted(token.parse().unwrap()),
                }));
            }
            let own = self.list.lock().unwrap();
            let counted = match ended.code {
                Some(0) => Some(&self.leases),
                // The fleet was moved, and the lease not renewed.
                Some(76) => None,
                Some(69) => {
                    let words = ["the fleet has moved to: ", "a node of another fleet: "];
                    let told = words.iter().any(|words| ended.stderr.contains(words));
                    // A busy machine may have answered too late: it tries again.
                    let late = ended.stderr.contains("timed out") || ended.stderr.contains("in time");
                    assert!((told || late) && granted.is_empty(), "{ended:?}");
                    told.then_some(&self.sent_away)
                }
                _ => panic!("{ended:?}"),
            };
            if let Some(counted) = counted.filter(|_| *own == list) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            drop(own);
            std::thread::sleep(Duration::from_millis(rng.u64(0..50)));
        }
        events
    }
}
