//! What the fence adds to a put: requests, bytes sent, and time beside a put without a fence. The ways are interleaved in
//! one run; times are medians. The stores are emulators on loopback: of a real one, multiply the requests.
//!
//! `cargo bench -p object_bench`, after `tests/run` has installed moto and Azurite.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use fencing::object::ObjectFence;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

#[path = "../rounds.rs"]
mod rounds;
#[allow(dead_code)]
#[path = "../../tests/object/stores.rs"]
mod stores;

use rounds::{median, turns};
use stores::{Around, Kind, Wrapped, open, token};

const ROUNDS: usize = 200;
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
    let counted = || [&counts.requests, &counts.bytes].map(|count| count.swap(0, Ordering::Relaxed) as f64);
    let mut found: [Vec<[f64; 3]>; 4] = Default::default();
    for way in turns(ROUNDS, WAYS.len()) {
        let round = found[way].len() as u64 + 2;
        counted();
        let start = Instant::now();
        put(way, &store, &fence, round).await;
        let millis = start.elapsed().as_secs_f64() * 1e3;
        let [requests, bytes] = counted();
        found[way].push([millis, requests, bytes]);
    }
    println!("{name}: {CONTENTS} bytes");
    let medians = found.map(|puts| [0, 1, 2].map(|figure| median(puts.iter().map(|put| put[figure]))));
    for (words, [millis, requests, bytes]) in WAYS.iter().zip(medians) {
        let ratio = millis / medians[0][0];
        println!("  {words:<24}{requests:>3} requests{bytes:>7} bytes{millis:>8.2} ms{ratio:>7.2}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    measure("memory", Kind::Memory).await;
    measure("moto (S3)", Kind::Moto).await;
    measure("Azurite (Azure)", Kind::Azurite).await;
}
