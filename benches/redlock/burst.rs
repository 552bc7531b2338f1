use std::time::Instant;

use fencing::Resource;
use tokio::task::JoinSet;

use crate::fleet;
use crate::table::Table;

/// This many attempts at one moment, each for a free resource of its own, with the default budget.
pub async fn measure(number: usize, table: &mut Table) {
    let (_servers, redlock) = fleet::of_fencing().await;
    let start = Instant::now();
    let mut attempts = JoinSet::new();
    for number in 0..number {
        let redlock = redlock.clone();
        attempts.spawn(async move {
            let resource = Resource::new(format!("burst/{number}")).unwrap();
            redlock.try_acquire(&resource).await.ok()
        });
    }
    let leases: Vec<_> = attempts.join_all().await.into_iter().flatten().collect();
    table.own("attempts that succeed", "%", leases.len() as f64 * 100.0 / number as f64);
    table.own("until the last", "ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let releases: JoinSet<_> = leases.into_iter().map(|lease| lease.release()).collect();
    releases.join_all().await;
    table.own("releases, until the last", "ms", start.elapsed().as_secs_f64() * 1e3);
}
