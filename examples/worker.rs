//! Leader election: one worker is active, the others wait. On SIGTERM the leader stops its work, releases
//! its lease, and ends.
//!
//! `worker redis://a,b,c` or `worker sqlite:jobs.db`, and any other URL of `lock::connect`.

use std::time::Duration;

use anyhow::Context;
use fencing::lock::{self, AcquireError};
use fencing::{Resource, Token};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// The work. It may be dropped at any `.await`, so each step is whole by itself. Each order that it gives
/// carries the token: the receiver refuses the orders of a worker that has been asleep.
async fn work(token: Token) {
    for step in 1.. {
        println!("step {step} with token {token}");
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).context("usage: worker URL")?;
    let mut terminated = signal(SignalKind::terminate())?;
    let lock = lock::connect(&url).await?;
    let job = Resource::new("jobs/import")?;
    loop {
        let acquired = tokio::select! {
            acquired = lock.acquire(&job) => acquired,
            _ = terminated.recv() => break,
        };
        let lease = match acquired {
            Ok(lease) => lease,
            // Another worker has it.
            Err(AcquireError::Held { .. }) => continue,
            Err(broken) => {
                eprintln!("{broken}");
                sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let stop = tokio::select! {
            Err(lost) = lease.run(work(lease.token())) => { println!("{lost}"); false }
            _ = terminated.recv() => true,
        };
        if let Err(doubt) = lease.release().await {
            eprintln!("{doubt}");
        }
        if stop {
            break;
        }
    }
    println!("stopped");
    // What was sent is answered, or the lock would stay closed for its TTL.
    lock.settle().await;
    Ok(())
}
