//! What the log says to those who put the server together.

use std::io::Seek;
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;

use super::*;

/// Sends a request several times, and returns what is logged as an error for the last: the first makes the place in
/// the code known.
pub async fn said(app: &Router) -> (String, Response<Body>) {
    let send = async || write(app, 33).await;
    send().await;
    let mut heard = logged(send).await;
    // Another test may have hidden this listener meanwhile.
    for _ in 0..9 {
        if !heard.0.is_empty() {
            break;
        }
        heard = logged(send).await;
    }
    heard
}

/// Returns what is logged as an error meanwhile.
async fn logged<T>(act: impl AsyncFnOnce() -> T) -> (String, T) {
    let mut log = tempfile::tempfile().unwrap();
    let lines = tracing_subscriber::fmt().with_ansi(false).with_max_level(LevelFilter::ERROR);
    let lines = lines.with_writer(Mutex::new(log.try_clone().unwrap()));
    let _logging = tracing::subscriber::set_default(lines.finish());
    tracing::callsite::rebuild_interest_cache();
    let done = act().await;
    log.rewind().unwrap();
    (std::io::read_to_string(log).unwrap(), done)
}

#[tokio::test]
async fn a_fence_for_each_route_is_named() {
    let admit = async |fence: &Fence, name: &str| {
        drop(fence.admit(&Resource::new(name).unwrap(), token(33)).await.unwrap());
    };
    let of_a_route = || Fence::new(MemoryMarks::default());
    let (first, second) = (of_a_route(), of_a_route());
    // The first time makes the place in the code known.
    for fence in [&first, &second] {
        admit(fence, "said/1").await;
    }
    let (said, ()) = logged(async || {
        for fence in [&first, &first.clone(), &second] {
            admit(fence, "said/2").await;
        }
    })
    .await;
    assert_eq!(said.matches("said/2").count(), 1, "{said}");
    assert!(said.contains("two fences") && said.contains("clone it for each route"), "{said}");
    drop(second);
    let (said, ()) = logged(async || {
        for fence in [&first, &first.clone()] {
            admit(fence, "said/3").await;
        }
    })
    .await;
    assert_eq!(said, "");
}
