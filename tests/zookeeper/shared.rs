use super::*;
use support::lease::named as resource;
use support::process::PATIENCE;
use tokio::time::timeout;

/// Each waits for the one ahead of it: it hears of it from the line, as it asks of itself only after many minutes.
#[tokio::test]
async fn waiting_clients_come_in_their_order() {
    let server = ZookeeperServer::start();
    let slow = || on(&server).retry_delay(PATIENCE * 20).wait(PATIENCE * 40);
    let (r, holder) = (resource("r"), on(&server).build().unwrap());
    let held = holder.acquire(&r).await.unwrap();
    let hand = by_hand(&server).await;
    let mut waiting = Vec::new();
    for number in 1..=3 {
        let (lock, r) = (slow().build().unwrap(), r.clone());
        waiting.push(tokio::spawn(async move {
            let lease = lock.acquire(&r).await.unwrap();
            let token = lease.token();
            lease.release().await.unwrap();
            token
        }));
        until("it has a place", async || {
            let places = hand.list_children("/fencing/q/r").await.unwrap_or_default();
            (places.len() == number).then_some(())
        })
        .await;
    }
    held.release().await.unwrap();
    let mut last = None;
    for waiter in waiting {
        let token = Some(timeout(PATIENCE, waiter).await.expect("it hears of it").unwrap());
        assert!(token > last);
        last = token;
    }
    until("all have left", async || {
        hand.list_children("/fencing/q/r").await.unwrap_or_default().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn readers_share_and_a_waiting_writer_comes_next() {
    let server = ZookeeperServer::start();
    let (one, other) = (on(&server).build().unwrap(), on(&server).build().unwrap());
    let r = resource("r");
    let first = one.acquire_shared(&r).await.unwrap();
    let second = other.acquire_shared(&r).await.unwrap();
    assert!(second.token() >= first.token());
    let hand = by_hand(&server).await;
    let version = async || hand.check_stat("/fencing/l/r").await.unwrap().unwrap().version;
    let before = version().await;
    assert!(other.try_acquire(&r).await.is_err());
    // What a writer tries leaves no mark: the readers' releases would have to find out why.
    assert_eq!(version().await, before);
    let writer = tokio::spawn({
        let (other, r) = (other.clone(), r.clone());
        async move { other.acquire(&r).await.unwrap() }
    });
    // While it waits, nobody joins.
    until("the lock is closed to readers", async || one.try_acquire_shared(&r).await.is_err().then_some(())).await;
    let (last, _) = (second.token(), first.release().await.unwrap());
    second.release().await.unwrap();
    let alone = writer.await.unwrap();
    assert!(alone.token() > last);
    assert!(one.try_acquire_shared(&r).await.is_err());
    alone.release().await.unwrap();
    let reader = one.acquire_shared(&r).await.unwrap();
    assert!(reader.token() > last);
}
