use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use fencing::Token;
use fencing::http::{HEADER, Problem};
use serde::Deserialize;
use serde_json::json;

use crate::caller::Caller;

/// How long the leases of the play last, and how long client 1 sleeps.
const TTL: Duration = Duration::from_millis(1000);
const PAUSE: Duration = Duration::from_millis(1600);

const CORRUPTED: &str = "The file is CORRUPTED: the stale write went over the newer one. That is what the fence \
    (here switched off by --unguarded) is for.";

struct Player {
    caller: Caller,
    start: Instant,
}

#[derive(Deserialize)]
struct Granted {
    token: Token,
}

impl Player {
    async fn acquire(&self, file: &str) -> Result<Token, Box<dyn Error>> {
        let wish = json!({ "ttl_ms": TTL.as_millis() as u64, "wait_ms": 10_000 });
        let path = format!("/leases{file}");
        let ask = || self.caller.send(Method::POST, &path, None, wish.to_string());
        let mut answer = ask().await?;
        // As the service says in Retry-After.
        for _ in 0..3 {
            if answer.status == StatusCode::SERVICE_UNAVAILABLE {
                tokio::time::sleep(Duration::from_secs(1)).await;
                answer = ask().await?;
            }
        }
        if answer.status != StatusCode::CREATED {
            return Err(String::from_utf8_lossy(&answer.body).into());
        }
        Ok(serde_json::from_slice::<Granted>(&answer.body)?.token)
    }

    async fn write(&self, file: &str, token: Token, text: &str) -> Result<String, Box<dyn Error>> {
        let answer = self.caller.send(Method::PUT, file, Some(token), text.into()).await?;
        Ok(match Problem::read(&answer.headers, &answer.body) {
            Ok(problem) => format!("{}: {}", answer.status.as_u16(), problem.detail),
            Err(_) => format!("{}: stored", answer.status.as_u16()),
        })
    }

    fn print(&self, who: &str, what: &str, outcome: &str) {
        let at = self.start.elapsed().as_millis();
        println!("{at:>6} ms  {who:<9} {what:<46} {outcome}");
    }
}

/// Plays the stale write, and says whether it came out as it has to.
pub async fn play(address: SocketAddr, guarded: bool) -> Result<bool, Box<dyn Error>> {
    let player = Player { caller: Caller::new(address)?, start: Instant::now() };
    // Its own file each time: the storage may be one that others use.
    let file = format!("/files/play-{:08x}", std::process::id());

    println!("A client writes after its lease has ended, because it was asleep.\n");
    let first = player.acquire(&file).await?;
    player.print("client 1", "acquires the lease for 1 s", &format!("token {first}"));
    player.print("client 1", "falls asleep (garbage collection, say)", "");
    let asleep = Instant::now();

    let second = player.acquire(&file).await?;
    let token = format!("token {second}");
    player.print("client 2", "waits until the lease has ended, acquires it", &token);
    let outcome = player.write(&file, second, "client 2").await?;
    player.print("client 2", "writes", &outcome);

    tokio::time::sleep(PAUSE.saturating_sub(asleep.elapsed())).await;
    player.print("client 1", "wakes up, and still believes in its lease", "");
    let outcome = player.write(&file, first, "client 1").await?;
    player.print("client 1", "writes", &outcome);
    let refused = outcome.starts_with("412");

    let answer = player.caller.send(Method::GET, &file, None, String::new()).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let token = answer.headers.get(HEADER).and_then(|value| value.to_str().ok()).unwrap_or("none");
    player.print("reader", "reads", &format!("what {text} wrote, token {token}"));
    println!();

    let kept = text == "client 2";
    let expected = if guarded { refused && kept } else { !refused && !kept };
    println!(
        "{}",
        match (expected, guarded) {
            (true, true) => "The stale write was refused. The file holds what client 2 wrote.",
            (true, false) => CORRUPTED,
            (false, _) => "UNEXPECTED: this should not have happened.",
        }
    );
    Ok(expected)
}
