use std::fs;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::serve::Http;
use crate::served::{Held, start};
use crate::table::Table;

const MINUTE: Duration = Duration::from_secs(60);

/// Ten minutes of 200 leases that are held while others come and go: what the service takes after each.
pub async fn measure(table: &mut Table) {
    let (_servers, service) = start("");
    let (held, tasks) = Held::hold(&service.http, 200).await;
    let mut guests = JoinSet::new();
    (0..8).for_each(|guest| drop(guests.spawn(come_and_go(service.http.clone(), guest))));
    for minute in 1..=10 {
        sleep(MINUTE).await;
        let status = fs::read_to_string(format!("/proc/{}/status", service.process.pid())).unwrap();
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
