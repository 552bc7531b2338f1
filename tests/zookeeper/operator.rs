use std::sync::Arc;

use super::*;
use fencing::Token;
use fencing::lock::{ConnectOptions, Loss, Operator};
use support::lease::named as resource;

fn operator(server: &ZookeeperServer) -> Arc<dyn Operator> {
    ConnectOptions::new(server.url()).operator().unwrap()
}

#[tokio::test]
async fn a_lock_that_was_changed_by_hand_names_no_other_lease_and_what_is_left_of_several_is_free_in_time() {
    let server = ZookeeperServer::start();
    let (hand, operator) = (by_hand(&server).await, operator(&server));
    let lock = on(&server).build().unwrap();
    let lease = lock.acquire(&resource("r")).await.unwrap();
    hand.set_data("/fencing/l/r/x", b"", None).await.unwrap();
    let changed = operator.leases_of(&resource("r")).await.unwrap();
    assert_eq!(changed.len(), 1, "{changed:?}");
    hand.delete("/fencing/l/r/x", None).await.unwrap();
    assert!(lease.renew().await.is_err());
    let next = lock.acquire(&resource("r")).await.unwrap();
    assert!(!operator.force_release(&changed[0]).await.unwrap());
    next.renew().await.unwrap();

    // One of several was ended by force: the others are free after the minimum time all the same.
    let lock = on(&server).build().unwrap().with_lock_at_least_for(Duration::from_secs(2)).unwrap();
    let [s, t] = ["s", "t"].map(resource);
    let leases = lock.acquire_all(&[s.clone(), t.clone()]).await.unwrap();
    assert!(operator.force_release(&operator.leases_of(&s).await.unwrap()[0]).await.unwrap());
    let _ = leases.release().await;
    drop(until("the other is free", async || lock.try_acquire(&t).await.ok()).await);
}

/// The servers come back with an older state: their counts begin again below what was given out.
#[tokio::test]
async fn after_a_restore_no_smaller_token_is_granted() {
    let mut server = ZookeeperServer::with("minSessionTimeout=1000\nmaxSessionTimeout=12000");
    let brief = on(&server).ttl(Duration::from_secs(8)).budget(Duration::from_secs(4));
    let lock = brief.clone().build().unwrap();
    let r = resource("r");
    let _ = lock.acquire(&r).await.unwrap().release().await;
    server.kill();
    server.save();
    server.restart();
    let mut last = Token::new(1).unwrap();
    for _ in 0..5 {
        let lease = until("it grants", async || lock.try_acquire(&r).await.ok()).await;
        last = lease.token();
        let _ = lease.release().await;
    }
    let held = lock.acquire(&resource("held")).await.unwrap();
    server.kill();
    server.restore();
    server.restart();
    held.lost().await;
    // A client that has seen more refuses, and is not stuck with its session.
    until("it says what to do", async || match lock.try_acquire(&r).await {
        Ok(lease) => panic!("{lease:?} after {last}"),
        Err(error) => error.to_string().contains("raise").then_some(()),
    })
    .await;
    operator(&server).raise(last).await.unwrap();
    // Old holders may work until then.
    let closed = fault(brief.clone().build().unwrap().try_acquire(&r).await).to_string();
    assert!(closed.contains("raised"), "{closed}");
    for client in [lock, brief.build().unwrap()] {
        let lease = until("locks are granted", async || client.try_acquire(&r).await.ok()).await;
        assert!(lease.token() > last, "{lease:?} after {last}");
        last = lease.token();
        let _ = lease.release().await;
    }
}

#[tokio::test]
async fn raising_ends_every_lease() {
    let server = ZookeeperServer::with("maxSessionTimeout=20000");
    let lock = on(&server).build().unwrap();
    let lease = lock.acquire(&resource("r")).await.unwrap();
    let other = lock.acquire_shared(&resource("s")).await.unwrap();
    let above = Token::new(lease.token().get() + 1_000_000_000_000).unwrap();
    operator(&server).raise(above).await.unwrap();
    assert!(lease.renew().await.is_err());
    assert_eq!(other.lost().await, Loss::Superseded);
    let next = until("locks are granted", async || lock.try_acquire(&resource("r")).await.ok()).await;
    assert!(next.token() > above);
    // Its release does not touch the next one.
    drop(lease);
    lock.settle().await;
    next.renew().await.unwrap();
}

/// What stays for a minimum time, and was ended by force, is another's then.
#[tokio::test]
async fn a_late_holder_keeps_nothing() {
    let server = ZookeeperServer::start();
    let (operator, hand) = (operator(&server), by_hand(&server).await);
    let (ttl, least) = (Duration::from_secs(12), Duration::from_secs(4));
    let brief = on(&server).ttl(ttl).budget(ttl / 2);
    let (lock, other) = (brief.renew(false).build().unwrap(), on(&server).build().unwrap());
    let lock = lock.with_lock_at_least_for(least).unwrap();
    let lease = lock.acquire(&resource("r")).await.unwrap();
    assert!(operator.force_release(&operator.leases_of(&resource("r")).await.unwrap()[0]).await.unwrap());
    let next = other.acquire(&resource("r")).await.unwrap();
    let contents = async || hand.get_data("/fencing/l/r/x").await.unwrap().0;
    let before = contents().await;
    let _ = lease.release().await;
    lock.settle().await;
    assert_eq!(contents().await, before);
    sleep(ttl + least).await;
    assert_eq!(contents().await, before);
    next.release().await.unwrap();
}

/// Nor is a lock granted while tokens are raised once more.
#[tokio::test]
async fn locks_stay_closed_while_tokens_are_raised_again() {
    let server = ZookeeperServer::start();
    let (operator, hand) = (operator(&server), by_hand(&server).await);
    operator.raise(Token::new(1).unwrap()).await.unwrap();
    let raised = tokio::spawn(async move {
        for above in 2..10 {
            operator.raise(Token::new(above).unwrap()).await.unwrap();
        }
    });
    while !raised.is_finished() {
        assert!(hand.check_stat("/fencing/closed").await.unwrap().is_some());
    }
    raised.await.unwrap();
}
