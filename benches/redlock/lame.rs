use std::time::Duration;

use crate::contestant::Contestant;
use crate::fleet;
use crate::pairs::rounds_of;
use crate::proxy;
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
        proxy::delay(&socket, &server.socket(), Duration::from_millis(millis));
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
