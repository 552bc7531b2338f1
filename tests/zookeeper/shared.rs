use super::*;
use support::lease::named as resource;

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
