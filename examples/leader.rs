//! A leader and those who wait to follow it. Start it on several machines.
//!
//! `leader redis://a,b,c` or `leader sqlite:leader.db`, and any other URL of `lock::connect`.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Context;
use fencing::lock::{AcquireError, ConnectOptions};
use fencing::{Resource, Token};
use tokio::time::sleep;

/// What a leader does. Each order that it gives carries its token, so that those who receive it can
/// refuse the orders of a leader that has been asleep.
async fn lead(token: Token) -> Infallible {
    loop {
        println!("leading with token {token}");
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).context("usage: leader URL")?;
    // Another one leads two seconds after this one has died.
    let options = ConnectOptions::new(url).ttl(Duration::from_secs(2));
    let lock = options.wait(Duration::from_secs(3600)).connect().await?;
    let seat = Resource::new("leader")?;
    loop {
        match lock.acquire(&seat).await {
            Ok(lease) => {
                let Err(lost) = lease.run(lead(lease.token())).await;
                println!("leader no more: {lost}");
            }
            Err(AcquireError::Held { .. }) => {}
            Err(broken) => {
                eprintln!("{broken}");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
