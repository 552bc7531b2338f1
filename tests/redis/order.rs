//! What one client sends to a server arrives in its order.

use std::time::Duration;

use fencing::{Redlock, Resource};
use futures_util::FutureExt;
use support::redis::RedisServer;

const ROUNDS: u64 = 150;
const BURST: usize = 128;

/// More requests at once than the driver of the connection has room for by default. An attempt that is
/// dropped takes its lock back: that must not come before the request for it, or the lock stays for its TTL.
#[test]
fn no_release_overtakes_its_attempt() {
    let server = RedisServer::start();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lock = Redlock::builder().redis([server.url()]).first_start(true);
    let lock = lock.ttl(Duration::from_secs(600)).node_budget(Duration::from_secs(30));
    let lock = lock.build().unwrap();
    let names = (0..BURST).map(|number| Resource::new(format!("burst/{number}")).unwrap());
    let names: Vec<_> = names.collect();
    runtime.block_on(async {
        lock.try_acquire(&names[0]).await.unwrap().release().await.unwrap();
        lock.settle().await;
    });
    for round in 0..ROUNDS {
        // With the next connection all go at once.
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        {
            let _runtime = runtime.enter();
            let mut attempts: Vec<_> =
                names.iter().map(|name| Box::pin(lock.try_acquire(name))).collect();
            for attempt in &mut attempts {
                let _ = attempt.as_mut().now_or_never();
            }
            std::thread::sleep(Duration::from_micros(round * 20));
        }
        runtime.block_on(lock.settle());
        let left = server.cli(&["KEYS", "*:lock:*"]);
        assert_eq!(left.trim(), "", "round {round}");
    }
}
