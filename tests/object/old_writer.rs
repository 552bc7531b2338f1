//! A process that is paused between its read and its write: it asks before it sends a write, and waits.
//!
//! Each line of its input is a path, a token and contents. Before a write is sent it prints `sending`, and reads a line
//! more; at the end it prints what became of the write.

use std::io::{BufRead, stdin};
use std::sync::Arc;

use async_trait::async_trait;
use fencing::object::{ObjectError, ObjectFence};
use object_store::PutPayload;
use object_store::path::Path;

#[allow(dead_code)]
mod stores;

use stores::{Around, Kind, Wrapped};

#[derive(Debug)]
struct Paused;

#[async_trait]
impl Around for Paused {
    async fn before_put(&self, _: &PutPayload) {
        println!("sending");
        line();
    }
}

fn line() -> Option<String> {
    stdin().lock().lines().next().map(|line| line.expect("it is text"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, url, bucket] = &arguments[..] else { panic!("KIND URL BUCKET") };
    let kind = if kind == "moto" { Kind::Moto } else { Kind::Azurite };
    let store = Arc::new(Wrapped { store: kind.at(url, bucket), around: Paused });
    let fence = ObjectFence::open(store).await.expect("it keeps to conditions");
    println!("open");
    while let Some(line) = line() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [path, token, contents] = words[..] else { panic!("{line:?}") };
        let token = stores::token(token.parse().expect("a number"));
        match fence.put(&Path::from(path), token, contents.to_owned().into()).await {
            Ok(()) => println!("applied"),
            Err(ObjectError::Stale(_)) => println!("stale"),
            Err(error) => println!("{error}"),
        }
    }
}
