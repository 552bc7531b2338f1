//! Many clients collect counts at one time; then the power fails.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fleet::*;

const CLIENTS: usize = 16;

/// Puts enough counts on the node for the next few grants to make it crowded.
const STUFF: &str =
    "for i = 1, 99995 do redis.call('HSET', KEYS[1], 'c:some/resource/' .. i, 1) end";

fn era(server: &RedisServer) -> u64 {
    server.cli(&["HGET", MEMORY, "era"]).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eras_do_not_run_ahead_of_the_clock() {
    let mut servers = servers(3);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let service = || {
        let builder = Redlock::builder().redis(&urls).first_start(true);
        builder.ttl(Duration::from_secs(5)).node_budget(Duration::from_secs(2)).build().unwrap()
    };
    let clients: Vec<Redlock> = (0..CLIENTS).map(|_| service()).collect();
    let invoice = resource();
    clients[0].acquire(&invoice).await.unwrap().release().await.unwrap();
    let before = era(&servers[0]);
    let number = Arc::new(AtomicU64::new(0));
    const ROUNDS: u64 = 3;
    for _ in 0..ROUNDS {
        servers.iter().for_each(|s| drop(s.cli(&["EVAL", STUFF, "1", MEMORY])));
        let tasks: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (client, number) = (clients[client].clone(), Arc::clone(&number));
                tokio::spawn(async move {
                    let end = Instant::now() + Duration::from_millis(700);
                    while Instant::now() < end {
                        let job = format!("job/{}", number.fetch_add(1, Ordering::Relaxed));
                        if let Ok(lease) = client.try_acquire(&named(&job)).await {
                            let _ = lease.release().await;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
    sleep(Duration::from_millis(600)).await;
    // Each node takes an era of its own, and hears of the others' by publishes; nobody takes one
    // because somebody else has collected already.
    let used = servers.iter().map(era).max().unwrap() - before;
    assert!((1..=ROUNDS * 3).contains(&used), "{used} eras for {ROUNDS} times three crowded nodes");
    let last = clients[0].acquire(&invoice).await.unwrap().token();
    drop(clients);
    servers.iter_mut().for_each(RedisServer::restart);
    let next = service().acquire(&invoice).await.unwrap().token();
    assert!(next > last, "{next} after {last}, though no clock stepped back");
}
