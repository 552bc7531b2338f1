use super::*;
use support::lease::named as resource;

/// Each waits for the one ahead of it: with polls ten seconds apart, only the line is this fast.
#[tokio::test]
async fn waiting_clients_come_in_their_order() {
    let server = ZookeeperServer::start();
    let slow = || on(&server).retry_delay(Duration::from_secs(20)).wait(Duration::from_secs(80));
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
    let freed = Instant::now();
    held.release().await.unwrap();
    let mut last = None;
    for waiter in waiting {
        let token = Some(waiter.await.unwrap());
        assert!(token > last);
        last = token;
    }
    assert!(freed.elapsed() < Duration::from_secs(30), "{:?}", freed.elapsed());
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
    assert!(other.try_acquire(&r).await.is_err());
    let writer = tokio::spawn({
        let (other, r) = (other.clone(), r.clone());
        async move { other.acquire(&r).await.unwrap() }
    });
    // While it waits, nobody joins.
    until("the lock is closed to readers", async || {
        one.try_acquire_shared(&r).await.is_err().then_some(())
    })
    .await;
    let (last, _) = (second.token(), first.release().await.unwrap());
    second.release().await.unwrap();
    let alone = writer.await.unwrap();
    assert!(alone.token() > last);
    assert!(one.try_acquire_shared(&r).await.is_err());
    alone.release().await.unwrap();
    let reader = one.acquire_shared(&r).await.unwrap();
    assert!(reader.token() > last);
}
