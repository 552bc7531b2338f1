use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencing::lock::Lock;
use fencing::{Sequencer, Token};
use futures_util::future::{join, join_all};
use tokio::time::sleep;

use super::{acquire, refused, release};
use crate::{names, resource};

pub async fn tokens_grow(lock: &impl Lock) {
    let resource = resource("tokens");
    let mut last: Option<Token> = None;
    for _ in 0..20 {
        let lease = acquire(lock, &resource).await;
        let token = lease.token();
        assert!(Some(token) > last, "acquire after {last:?}: {token:?}");
        let pair = Sequencer::new(resource.clone(), token);
        assert_eq!(lease.sequencer(), pair, "the sequencer of a lease");
        last = Some(token);
        release(lease).await;
    }
}

pub async fn one_holder(lock: &impl Lock) {
    let resource = resource("held");
    let lease = acquire(lock, &resource).await;
    assert_eq!(lease.resource(), &resource, "the resource of a lease");
    let left = lease.valid_for();
    assert!(!left.is_zero(), "the validity of a lease: {left:?}");
    for _ in 0..3 {
        refused(&lock.try_acquire(&resource).await, &resource, "try_acquire what is held");
    }
    release(lease).await
}

pub async fn apart(lock: &impl Lock) {
    let mut leases = Vec::new();
    for name in names() {
        let lease = lock.try_acquire(&name).await;
        leases.push(
            lease.unwrap_or_else(|error| {
                panic!("try_acquire {name} while others are held: {error:?}")
            }),
        );
    }
    for lease in leases {
        release(lease).await;
    }
}

pub async fn waits(lock: &impl Lock) {
    let resource = resource("wait");
    let first = acquire(lock, &resource).await;
    let (token, freed) = (first.token(), AtomicBool::new(false));
    let holder = async {
        sleep(Duration::from_millis(200)).await;
        freed.store(true, Ordering::SeqCst);
        release(first).await
    };
    let waiter = async {
        let lease = acquire(lock, &resource).await;
        assert!(freed.load(Ordering::SeqCst), "acquire what is held: {lease:?}");
        assert!(lease.token() > token, "acquire after {token}: {lease:?}");
        release(lease).await
    };
    join(holder, waiter).await;
}

/// Runs many clients at once: never two hold the lock, and tokens grow in the order of the
/// grants.
pub async fn concurrent(lock: &impl Lock) {
    let resource = resource("concurrent");
    let (inside, last) = (AtomicUsize::new(0), Mutex::new(None::<Token>));
    let clients = (0..12).map(|_| async {
        let lease = acquire(lock, &resource).await;
        let others = inside.fetch_add(1, Ordering::SeqCst);
        let before = last.lock().unwrap().replace(lease.token());
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        inside.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(others, 0, "others inside, of 12 at once");
        let grew = Some(lease.token()) > before;
        assert!(grew, "granted next after {before:?}: {:?}", lease.token());
        release(lease).await
    });
    join_all(clients).await;
}
