//! Three members, of which some do not answer.

use super::*;

#[tokio::test]
async fn the_first_use_works_while_one_of_three_is_down_and_leases_outlive_a_leader_that_moves_is_killed_or_stops() {
    let mut cluster = EtcdCluster::of(3);
    cluster.kill(0);
    let lock = lock(&cluster).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    until("the health names the one that is down", async || {
        let health = lock.health().await;
        health.has_quorum() && health.causes.len() == 1 && health.causes[0].node == cluster.host(0)
    })
    .await;
    until("renewed", async || lease.renew().await.is_ok()).await;
    release(lease).await;

    cluster.restart(0);
    let lock = lock.with_ttl(Duration::from_secs(60)).unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    cluster.move_leader();
    until("renewed", async || lease.renew().await.is_ok()).await;
    let leader = cluster.leader();
    cluster.kill(leader);
    until("renewed", async || lease.renew().await.is_ok()).await;
    cluster.restart(leader);
    let leader = cluster.leader();
    cluster.signal(leader, "STOP");
    until("renewed", async || lease.renew().await.is_ok()).await;
    let other = lock.acquire(&named("other")).await.unwrap();
    cluster.signal(leader, "CONT");
    assert!(other.token() > lease.token());
    until("renewed", async || lease.renew().await.is_ok() && other.renew().await.is_ok()).await;
    release(other).await;
    release(lease).await;
}

/// The list names it among those of one cluster. Where it comes up later, leases that are held outlive it.
#[tokio::test]
async fn a_member_of_another_cluster_is_refused_and_ends_no_lease() {
    let (mut cluster, mut other) = (EtcdCluster::of(3), EtcdCluster::start());
    let [a, b, c] = [0, 1, 2].map(|number| cluster.host(number));
    let url = format!("etcd://{a},{},{b},{c}", other.host(0));
    let lock = EtcdLock::builder(&url).ttl(Duration::from_secs(60)).budget(Duration::from_secs(6));
    // Each has half a minute to say where it belongs.
    let patient = lock.clone().ttl(Duration::from_secs(600)).budget(Duration::from_secs(120)).build().unwrap();
    // What is asked before the first lease binds it to neither.
    assert!(!patient.health().await.has_quorum());
    let cause = fault(patient.acquire(&resource()).await);
    let says =
        |why: &str| why.contains("a member belongs to the cluster") && why.contains("give members of one cluster");
    assert!(matches!(&cause, Fault::Denied(why) if says(why)), "{cause:?}");
    let operator = ConnectOptions::new(&url).budget(Duration::from_secs(60)).operator().unwrap();
    // Its locks would be those of one cluster.
    assert!(matches!(operator.leases(None, 9).await, Err(Fault::Denied(why)) if says(&why)));
    assert!(matches!(operator.raise(Token::MIN).await, Err(Fault::Denied(why)) if says(&why)));
    other.kill(0);
    let lock = lock.build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    other.restart(0);
    cluster.kill(0);
    until("renewed", async || lease.renew().await.is_ok()).await;
    release(in_time(lock.acquire(&named("next"))).await.unwrap()).await;
    until("renewed", async || lease.renew().await.is_ok()).await;
    release(lease).await;
}

#[tokio::test]
async fn members_are_known_by_their_certificates() {
    let clusters = [EtcdCluster::secure(), EtcdCluster::secure()];
    let [one, other] = clusters.each_ref();
    let url = format!("etcds://{},{}?ca={}", other.host(0), one.host(0), one.certificate());
    let lease = connect(&url).await.unwrap().acquire(&resource()).await.unwrap();
    release(lease).await;
    let url = format!("etcds://{}?ca={}", other.host(0), one.certificate());
    let lock = connect(&url).await.unwrap();
    let error = in_time(lock.acquire(&resource())).await.unwrap_err().to_string();
    assert!(error.contains("as ca= in the URL"), "{error}");
}

/// The member that is asked first stops: that costs no other call its budget.
#[tokio::test]
async fn a_member_that_stops_is_asked_no_more() {
    let cluster = EtcdCluster::of(3);
    let follower = (cluster.leader() + 1) % 3;
    let order = [follower, (follower + 1) % 3, (follower + 2) % 3];
    let budget = Duration::from_millis(2500);
    let lock = EtcdLock::builder(cluster.url_of(&order)).budget(budget).build().unwrap();
    release(lock.acquire(&resource()).await.unwrap()).await;
    cluster.signal(follower, "STOP");
    let _ = lock.try_acquire(&named("first")).await;
    let many = async {
        for number in 0..100 {
            let _ = lock.acquire(&named(&format!("{number}"))).await.unwrap().release().await;
        }
    };
    // A hundred budgets are far more.
    timeout(Duration::from_secs(90), many).await.unwrap();
    cluster.signal(follower, "CONT");
}

/// A leader stopped for longer than the TTL answers renewals of what the others have revoked, and its own revocations
/// come late (`x8`, `x15`). No token is given out twice or in wrong order, and a lease lost in etcd ends here.
#[tokio::test]
async fn a_leader_that_resumes_breaks_no_order() {
    let cluster = EtcdCluster::of(3);
    let lock = lock(&cluster).ttl(Duration::from_secs(3)).budget(Duration::from_secs(1)).wait(Duration::from_secs(60));
    let (one, two) = (lock.clone().build().unwrap(), lock.build().unwrap());
    let mut last = Token::MIN;
    for _ in 0..2 {
        let leader = cluster.leader();
        let lease = in_time(one.acquire(&resource())).await.unwrap();
        assert!(lease.token() > last, "{:?} after {last}", lease.token());
        last = lease.token();
        cluster.signal(leader, "STOP");
        sleep(Duration::from_secs(7)).await;
        cluster.signal(leader, "CONT");
        sleep(Duration::from_secs(1)).await;
        if lease.valid_for().is_zero() {
            assert_eq!(lease.lost().await, Loss::Expired);
        } else {
            until("renewed, or lost", async || lease.renew().await.is_ok() || lease.valid_for().is_zero()).await;
        }
        let _ = lease.release().await;
        let next = in_time(two.acquire(&resource())).await.unwrap();
        assert!(next.token() > last, "{:?} after {last}", next.token());
        last = next.token();
        let _ = next.release().await;
    }
}
