//! What the fence adds to a put: requests, bytes sent, and time beside a put without a fence. The ways are interleaved in
//! one run; times are medians. The stores are emulators on loopback: of a real one, multiply the requests.
//!
//! `cargo bench -p object_bench`, after `tests/run` has installed moto and Azurite.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fencing::object::ObjectFence;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

#[allow(dead_code)]
#[path = "../../tests/object/stores.rs"]
mod stores;

use stores::{Around, Kind, Wrapped, open, token};

const ROUNDS: u64 = 200;
const CONTENTS: usize = 1 << 10;

const WAYS: [&str; 4] = ["put without a fence", "put again", "first put of an object", "claim of a new holder"];

/// Requests, and the bytes that were sent in them.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

#[async_trait]
impl Around for Arc<Counts> {
    async fn before_put(&self, payload: &PutPayload) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(payload.content_length(), Ordering::Relaxed);
    }

    fn before_get(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

async fn put(way: usize, store: &Arc<dyn ObjectStore>, fence: &ObjectFence, round: u64) {
    let contents = PutPayload::from(vec![b'x'; CONTENTS]);
    match way {
        0 => drop(store.put(&Path::from("bare"), contents).await.unwrap()),
        1 => fence.put(&Path::from("again"), token(1), contents).await.unwrap(),
        2 => fence.put(&Path::from(format!("first-{round}")), token(1), contents).await.unwrap(),
        _ => fence.claim(&Path::from("claimed"), token(round)).await.unwrap(),
    }
}

async fn measure(name: &str, kind: Kind) {
    let counts = Arc::new(Counts::default());
    let store: Arc<dyn ObjectStore> = Arc::new(Wrapped { store: kind.store(), around: Arc::clone(&counts) });
    let fence = open(&store).await;
    fence.put(&Path::from("again"), token(1), "".into()).await.unwrap();
    fence.put(&Path::from("claimed"), token(1), vec![b'x'; CONTENTS].into()).await.unwrap();
    let mut found: [Vec<(Duration, usize, usize)>; 4] = Default::default();
    for round in 2..2 + ROUNDS {
        for turn in 0..WAYS.len() {
            // Each goes first in its turn.
            let way = (turn + round as usize) % WAYS.len();
            counts.requests.store(0, Ordering::Relaxed);
            counts.bytes.store(0, Ordering::Relaxed);
            let start = Instant::now();
            put(way, &store, &fence, round).await;
            let took = start.elapsed();
            found[way].push((took, counts.requests.load(Ordering::Relaxed), counts.bytes.load(Ordering::Relaxed)));
        }
    }
    println!("{name}: {CONTENTS} bytes");
    let median = |way: usize| {
        let mut times = found[way].clone();
        times.sort();
        times[times.len() / 2]
    };
    let (bare, ..) = median(0);
    for (way, words) in WAYS.iter().enumerate() {
        let (time, requests, bytes) = median(way);
        let ratio = time.as_secs_f64() / bare.as_secs_f64();
        println!("  {words:<24}{requests:>3} requests{bytes:>7} bytes{:>8.2} ms{ratio:>7.2}", time.as_secs_f64() * 1e3);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    measure("memory", Kind::Memory).await;
    measure("moto (S3)", Kind::Moto).await;
    measure("Azurite (Azure)", Kind::Azurite).await;
}
