use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::contestant::Contestant;
use crate::fleet;
use crate::pairs::rounds_of;
use crate::table::{Table, median};

const ROUNDS: usize = 10;
const PAIRS: usize = 20;

/// Five nodes, each this many milliseconds away in each direction.
pub async fn delayed(millis: u64, table: &mut Table) {
    let servers = support::redis::servers(5);
    let folder = tempfile::tempdir().unwrap();
    let mut urls = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let socket = folder.path().join(number.to_string());
        delay(&socket, &server.socket(), Duration::from_millis(millis));
        urls.push(format!("unix://{}", socket.display()));
    }
    let contestants = Contestant::all(&urls).await;
    fleet::settle(&contestants).await;
    let mut times = rounds_of(&contestants, ROUNDS, |_| PAIRS).await;
    table.times(&mut times);
    let trips = |(name, times): &(&'static str, Vec<Duration>)| {
        let times = times.iter().map(|time| time.as_secs_f64() * 1e3 / (2 * millis) as f64);
        (*name, median(times.collect()))
    };
    table.figure("round trips per pair", "number", &times.iter().map(trips).collect::<Vec<_>>());
}

/// One of five nodes is gone.
pub async fn dead(table: &mut Table) {
    let (servers, contestants) = fleet::of_all(5).await;
    servers[0].signal("KILL");
    table.times(&mut rounds_of(&contestants, ROUNDS, |_| PAIRS).await);
}

/// One of five nodes takes requests and answers none.
pub async fn hung(table: &mut Table) {
    let (servers, contestants) = fleet::of_all(5).await;
    servers[0].signal("STOP");
    // A pair of rslock waits for two time limits of its driver, a second in all.
    let pairs = |each: &Contestant| if each.name() == "rslock" { 1 } else { PAIRS };
    table.times(&mut rounds_of(&contestants, ROUNDS, pairs).await);
    servers[0].signal("CONT");
}

/// Listens at a socket, and passes on what comes to another, so much later. It has threads of its own:
/// the runtime's timers are too coarse for it.
fn delay(from: &Path, to: &Path, delay: Duration) {
    let listener = UnixListener::bind(from).expect("a socket");
    let to: PathBuf = to.to_owned();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = UnixStream::connect(&to).expect("the server runs");
            carry(&client, &server, delay);
            carry(&server, &client, delay);
        }
    });
}

fn carry(from: &UnixStream, to: &UnixStream, delay: Duration) {
    let (mut from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let (sender, pieces) = channel();
    std::thread::spawn(move || deliver(&pieces, to));
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
}

fn deliver(pieces: &Receiver<(Instant, Vec<u8>)>, mut to: UnixStream) {
    for (at, piece) in pieces {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
