//! Leases that several processes have.

use super::proxy::{Gate, Proxy};
use super::*;
use fencing::lock::{ConnectOptions, Lease, LeaseTicket, Loss, RenewError};
use fencing::time::ManualClock;
use futures_util::future::join_all;
use support::lease::{named as resource, release, resource as lock};
use support::process::PATIENCE;
use zookeeper_client::{Acls, CreateMode, Error};

const TTL: Duration = Duration::from_secs(15);

/// Nothing lapses or is renewed by itself there.
fn services<const COUNT: usize>(server: &ZookeeperServer) -> [ZookeeperLock; COUNT] {
    let service = || on(server).renew(false).clock(ManualClock::default()).wait(PATIENCE);
    [(); COUNT].map(|()| service().build().unwrap())
}

/// A busy machine may take longer than a server has for its answer.
async fn resume(service: &ZookeeperLock, ticket: &LeaseTicket) -> Result<Lease, RenewError> {
    loop {
        match service.resume(ticket).await {
            Err(RenewError::Failed { .. }) => {}
            outcome => return outcome,
        }
    }
}

async fn is_over(service: &ZookeeperLock, ticket: &LeaseTicket) -> bool {
    matches!(resume(service, ticket).await, Err(RenewError::Lost(_)))
}

/// The one in front looks whenever the lock's node changes: it never finds none.
#[tokio::test]
async fn who_waits_is_not_let_in_while_the_lock_is_moved() {
    let server = ZookeeperServer::start();
    let [one, other, third] = services(&server);
    let services = [one, other];
    let lease = services[0].acquire(&lock()).await.unwrap();
    let (token, ticket) = (lease.token(), lease.ticket().unwrap());
    let waiting = tokio::spawn(async move { third.acquire(&lock()).await.unwrap().token() });
    let hand = by_hand(&server).await;
    let places = async || hand.list_children("/fencing/q/invoice%2F42").await.unwrap_or_default();
    until("it has a place", async || (!places().await.is_empty()).then_some(())).await;
    for round in 1..=20 {
        let resumed = resume(&services[round % 2], &ticket).await.unwrap();
        assert_eq!(resumed.token(), token);
        resumed.leave();
    }
    assert!(!waiting.is_finished());
    release(resume(&services[1], &ticket).await.unwrap()).await;
    assert!(waiting.await.unwrap() > token);
    drop(lease);
}

#[tokio::test]
async fn it_is_moved_by_several_at_once_and_released_for_all_or_ended_by_an_operator() {
    let server = ZookeeperServer::start();
    let services: [_; 4] = services(&server);
    let lease = services[0].acquire(&lock()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    for _ in 0..5 {
        let all = join_all(services.iter().chain(&services).map(|service| resume(service, &ticket))).await;
        all.into_iter().for_each(|resumed| resumed.unwrap().leave());
    }
    let moved = resume(&services[1], &ticket).await.unwrap();
    // It is on the session of another.
    release(lease).await;
    assert!(moved.renew().await.is_err());
    assert_eq!(moved.lost().await, Loss::Superseded);
    let next = services[2].acquire(&lock()).await.unwrap();
    for service in &services {
        assert!(is_over(service, &ticket).await);
    }
    drop(moved);
    services[1].settle().await;
    release(next).await;

    // After a move the node is another session's, but has the token of the grant.
    let operator = ConnectOptions::new(server.url()).operator().unwrap();
    let lease = services[0].acquire(&lock()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    for round in 1..4 {
        resume(&services[round % 2], &ticket).await.unwrap().leave();
        let found = operator.leases_of(&lock()).await.unwrap();
        assert_eq!((found.len(), found[0].token), (1, lease.token()), "{round}");
    }
    assert!(operator.force_release(&operator.leases_of(&lock()).await.unwrap()[0]).await.unwrap());
    assert!(is_over(&services[0], &ticket).await);
    release(services[1].acquire(&lock()).await.unwrap()).await;
}

#[tokio::test]
async fn a_late_move_finds_another_folder_or_no_session() {
    let server = ZookeeperServer::start();
    let (hand, services) = (by_hand(&server).await, services::<2>(&server));
    let (folder, x) = ("/fencing/l/invoice%2F42", "/fencing/l/invoice%2F42/x");
    let version = async || hand.check_stat(folder).await.unwrap().unwrap().version;
    let lease = services[0].acquire(&lock()).await.unwrap();
    // The folder stays.
    hand.create(&format!("{folder}/f"), b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let (before, ticket) = (version().await, lease.ticket().unwrap());
    release(lease).await;
    assert!(version().await > before);
    assert!(is_over(&services[1], &ticket).await);

    let lease = services[0].acquire(&lock()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    let (contents, stat) = hand.get_data(x).await.unwrap();
    let session = String::from_utf8(contents).unwrap().lines().nth(2).unwrap().to_owned();
    hand.delete(&format!("/fencing/s/{session}"), None).await.unwrap();
    assert!(is_over(&services[1], &ticket).await);
    assert_eq!(hand.check_stat(x).await.unwrap().unwrap().czxid, stat.czxid);
}

/// It is sent while the lock is as it was read, and arrives later.
#[tokio::test]
async fn a_late_move_changes_nothing() {
    let server = ZookeeperServer::start();
    let (hand, proxy, [one, other]) = (by_hand(&server).await, Proxy::before(&server).await, services(&server));
    let slow = ZookeeperLock::builder(&proxy.url).budget(Duration::from_secs(5)).ttl(TTL).renew(false);
    let slow = slow.clock(ManualClock::default()).build().unwrap();
    let (folder, x) = ("/fencing/l/invoice%2F42", "/fencing/l/invoice%2F42/x");
    slow.acquire(&resource("a")).await.unwrap().leave();
    for moved in [false, true] {
        let lease = one.acquire(&lock()).await.unwrap();
        let (token, ticket) = (lease.token(), lease.ticket().unwrap());
        proxy.gate.send_replace(Gate::Closed);
        let late = tokio::spawn({
            let (slow, ticket) = (slow.clone(), ticket.clone());
            async move { resume(&slow, &ticket).await }
        });
        proxy.waits().await;
        let next = if moved {
            resume(&other, &ticket).await.unwrap()
        } else {
            release(lease).await;
            // An empty one would be removed, and begin again with the version that the move has read.
            assert_eq!(hand.delete(folder, None).await, Err(Error::NotEmpty));
            other.acquire(&lock()).await.unwrap()
        };
        let (contents, stat) = hand.get_data(x).await.unwrap();
        proxy.gate.send_replace(Gate::Open);
        let late = late.await.unwrap();
        if moved {
            assert_eq!(late.unwrap().token(), token);
        } else {
            assert!(matches!(late, Err(RenewError::Lost(_))), "{late:?}");
            assert_eq!(hand.get_data(x).await.unwrap(), (contents, stat));
        }
        release(next).await;
    }
}

/// Its node was removed by force before its zxid was read, and is another client's since.
#[tokio::test]
async fn a_late_read_takes_no_token_of_the_next_holder() {
    let server = ZookeeperServer::start();
    let (hand, proxy, [other]) = (by_hand(&server).await, Proxy::before(&server).await, services(&server));
    let slow = ZookeeperLock::builder(&proxy.url).ttl(TTL * 2).budget(TTL).build().unwrap();
    slow.acquire(&resource("a")).await.unwrap().leave();
    release(other.acquire(&lock()).await.unwrap()).await;
    proxy.gate.send_replace(Gate::Behind);
    let late = tokio::spawn({
        let slow = slow.clone();
        async move { slow.try_acquire(&lock()).await }
    });
    proxy.waits().await;
    let x = "/fencing/l/invoice%2F42/x";
    until("it is made", async || hand.check_stat(x).await.unwrap()).await;
    hand.delete(x, None).await.unwrap();
    let next = until("it is the next one's", async || other.try_acquire(&lock()).await.ok()).await;
    proxy.gate.send_replace(Gate::Open);
    let late = late.await.unwrap();
    assert!(late.is_err(), "{late:?} beside {next:?}");
    next.renew().await.unwrap();
}
