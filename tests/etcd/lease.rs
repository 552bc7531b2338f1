//! A lease and its token.

use std::pin::pin;

use fencing::time::ManualClock;

use super::*;

/// The number that is added to revisions.
fn base(cluster: &EtcdCluster) -> u64 {
    cluster.ctl(&["get", "--print-value-only", "fencing/base"]).parse().unwrap()
}

fn revision_of(cluster: &EtcdCluster, key: &str) -> u64 {
    let fields = cluster.ctl(&["get", "--prefix", key, "-w", "fields"]);
    let created = fields.lines().find_map(|line| line.strip_prefix("\"CreateRevision\" : "));
    created.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_token_is_the_base_and_the_revision() {
    let cluster = EtcdCluster::start();
    let lock = lock(&cluster).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    let revision = revision_of(&cluster, "fencing/l/invoice/42");
    assert_eq!(lease.token().get(), base(&cluster) + revision);
    assert_eq!(holder(lock.try_acquire(&resource()).await).name.as_deref(), Some("billing-7"));
    let all = lock.acquire_all(&[named("a"), named("b")]).await.unwrap();
    assert!(all.token_of(&named("b")).unwrap() > lease.token());
    release(lease).await;
    release(all).await;
    // Each part is listed with its holder, and with what is left.
    let parts = [lock.acquire_shared(&resource()).await.unwrap(), lock.acquire_shared(&resource()).await.unwrap()];
    assert_eq!(parts[0].token(), parts[1].token());
    let found = ConnectOptions::new(cluster.url()).operator().unwrap().leases_of(&resource()).await.unwrap();
    assert!(found.iter().all(|it| it.holder.as_ref().unwrap().name.as_deref() == Some("billing-7")), "{found:?}");
    assert!(found.iter().all(|it| it.remaining.is_some_and(|left| !left.is_zero())), "{found:?}");
    let first = Token::new(base(&cluster)).unwrap();
    assert!(first > Token::new(1_000_000).unwrap(), "the base is from the clock: {first}");
}

#[tokio::test]
async fn leases_are_renewed_and_those_of_a_lost_key_or_session_end_at_once() {
    let cluster = EtcdCluster::start();
    let lock = lock(&cluster).build().unwrap();
    let [kept, deleted] = [named("kept"), named("deleted")];
    let leases = (lock.acquire(&kept).await.unwrap(), lock.acquire(&deleted).await.unwrap());
    // The etcd lease lasts for four thirds of the TTL.
    sleep(Duration::from_secs(27)).await;
    assert_held(lock.try_acquire(&kept).await);
    cluster.ctl(&["del", "--prefix", "fencing/l/deleted"]);
    assert_eq!(in_time(leases.1.lost()).await, Loss::Superseded);
    assert!(!leases.0.valid_for().is_zero());
    // Long before the renewal is due.
    let long = lock.with_ttl(Duration::from_secs(600)).unwrap();
    let lease = long.acquire(&named("long")).await.unwrap();
    cluster.ctl(&["del", "--prefix", "fencing/s/"]);
    assert_eq!(in_time(lease.lost()).await, Loss::Expired);
    assert_eq!(in_time(leases.0.lost()).await, Loss::Expired);
    // The locks of the old sessions go with their etcd leases, and a new session locks others.
    release(lock.acquire(&named("new")).await.unwrap()).await;
}

#[tokio::test]
async fn a_session_that_is_not_used_leaves_nothing() {
    let cluster = EtcdCluster::start();
    let keys = || cluster.ctl(&["get", "--prefix", "fencing/", "--keys-only"]);
    let lock = lock(&cluster).build().unwrap();
    release(lock.acquire(&resource()).await.unwrap()).await;
    assert!(keys().contains("fencing/s/"));
    until("the session is revoked", async || !keys().contains("fencing/s/")).await;
    let lease = lock.acquire(&resource()).await.unwrap();
    drop(lock);
    drop(lease);
    until("nothing is left", async || keys().split_whitespace().count() == 2).await;
    assert!(keys().contains("fencing/base") && keys().contains("fencing/ttl"));
}

#[tokio::test]
async fn what_does_not_fit_says_so() {
    let cluster = EtcdCluster::start();
    let short = lock(&cluster).ttl(Duration::from_millis(1900)).build().unwrap_err();
    assert_eq!(short.to_string(), "ttl: 1.9s is not between 2s and 86400s");
    let lock = lock(&cluster).build().unwrap();
    assert!(lock.with_ttl(Duration::from_secs(1)).is_err());
    let many: Vec<_> = (0..128).map(|number| named(&format!("many/{number}"))).collect();
    let error = lock.acquire_all(&many).await.unwrap_err();
    assert!(matches!(error, AcquireError::WrongCount { count: 128, most: 127, .. }), "{error:?}");
    release(lock.acquire_all(&many[1..]).await.unwrap()).await;
    cluster.ctl(&["put", "fencing/base", "999999999999999"]);
    let error = lock.try_acquire(&resource()).await.unwrap_err();
    let [cause] = error.causes() else { panic!("{error:?}") };
    assert!(matches!(&cause.cause, Fault::InvalidReply(text) if text.contains("999999999999999")));
    let other = EtcdCluster::start();
    let mixed = format!("{},{}", cluster.url(), other.host(0));
    let mixed = connect(&mixed).await.unwrap();
    let other = |cause: &NodeCause| cause.to_string().contains("the cluster");
    until("it is said", async || mixed.health().await.causes.iter().any(other)).await;
    let wrong = connect("etcd://me@host").await.unwrap_err().to_string();
    assert_eq!(wrong, "the etcd URL is not usable: put a password after the user: user:password@host");
}

#[tokio::test]
async fn a_user_needs_the_password() {
    let cluster = EtcdCluster::start();
    cluster.ctl(&["user", "add", "root:s3cret"]);
    cluster.ctl(&["auth", "enable"]);
    let host = cluster.host(0);
    let options = |user: &str| ConnectOptions::new(format!("etcd://{user}{host}")).budget(Duration::from_secs(5));
    for (user, advice) in [("", "before the host in the URL"), ("root:wrong@", "check the user")] {
        let lock = options(user).connect().await.unwrap();
        let error = in_time(lock.try_acquire(&resource())).await.unwrap_err();
        let [cause] = error.causes() else { panic!("{error:?}") };
        assert!(matches!(&cause.cause, Fault::Denied(text) if text.contains(advice)), "{error}");
        assert!(!error.to_string().contains("wrong@"));
    }
    let lock = options("root:s3cret@").connect().await.unwrap();
    release(lock.acquire(&resource()).await.unwrap()).await;
}

/// Where the session was not renewed for a while, the lease would end before that of the process that had it before.
#[tokio::test]
async fn a_lease_that_is_resumed_by_a_late_session_is_not_shorter() {
    let (cluster, clock) = (EtcdCluster::start(), ManualClock::default());
    let patient = || lock(&cluster).ttl(Duration::from_secs(60)).budget(Duration::from_secs(20));
    let one = patient().build().unwrap();
    let lease = one.acquire(&resource()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    let late = patient().clock(clock.clone()).renew(false).build().unwrap();
    // Its session is there already.
    let kept = late.acquire(&named("kept")).await.unwrap();
    clock.advance(ticket.ttl / 10 * 9);
    let resumed = late.resume(&ticket).await.unwrap();
    assert!(resumed.valid_for() > ticket.ttl / 10 * 9, "{resumed:?}");
    resumed.leave();
    release(lease).await;
    drop(kept);
}

/// The process that had the lease before may have renewed it until the lock was read. If the next one counted from
/// earlier, its session would sweep the lock before that renewal lapses.
#[tokio::test]
async fn a_lease_that_is_resumed_counts_from_after_the_read_of_its_lock() {
    let cluster = EtcdCluster::start();
    let (proxy, clock) = (Proxy::before(cluster.host(0)).await, ManualClock::default());
    let budget = Duration::from_secs(20);
    let one = lock(&cluster).ttl(budget * 3).budget(budget).renew(false).build().unwrap();
    let lease = one.acquire(&resource()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    lease.leave();
    let slow = EtcdLock::builder(format!("etcd://{}", proxy.host)).clock(clock.clone()).ttl(ticket.ttl).renew(false);
    let slow = slow.budget(budget).build().unwrap();
    // Its session is there already.
    let kept = slow.acquire(&named("kept")).await.unwrap();
    let resumed = {
        proxy.set(Mode::HoldFrom("invoice/42"));
        let mut resume = pin!(slow.resume(&ticket));
        tokio::select! {
            resumed = &mut resume => panic!("{resumed:?}"),
            () = until("it is held", async || proxy.holds(&["invoice/42"])) => {}
        }
        clock.advance(Duration::from_secs(2));
        proxy.set(Mode::Pass);
        proxy.deliver().await;
        in_time(resume).await.unwrap()
    };
    assert!(resumed.valid_for() > ticket.ttl - Duration::from_secs(1), "{resumed:?}");
    release(kept).await;
}
