use fencing::lock::{LeaseTicket, RenewError};

use super::*;

/// Checks that one process goes on with the leases of another, and brings none to life that is over.
///
/// Build both over the same servers, under one holder name, so that they do not renew, with a TTL of a few seconds.
/// `let_go` waits until the servers let go of a lease of that resource that has just lapsed.
pub async fn resume_contract(one: &dyn Lock, other: &dyn Lock, let_go: impl AsyncFn(&Resource)) {
    let resource = &resource("resume");
    let first = acquire(one, resource).await;
    let (ticket, token) = (first.ticket().expect("a ticket"), first.token());
    let text = ticket.to_string();
    assert_eq!(text.parse::<LeaseTicket>(), Ok(ticket.clone()), "the text of a ticket");
    // An environment variable and a column of text take it.
    assert!(text.lines().all(|line| !line.contains(char::is_control)), "the text of a ticket: {text:?}");
    first.leave();
    refused(&one.try_acquire(resource).await, resource, "try_acquire what was left");
    let resumed = answer(|| other.resume(&ticket)).await.expect("resume what is held");
    assert_eq!((resumed.resource(), resumed.token()), (resource, token), "the resumed lease");
    assert!(!resumed.valid_for().is_zero(), "validity of a resumed lease");
    assert!(resumed.renew().await.is_ok(), "renew a resumed lease");
    refused(&one.try_acquire(resource).await, resource, "try_acquire what was resumed");
    release(resumed).await;
    over(other, &ticket, "resume what was released").await;
    free(one, resource, "after the release of a resumed lease").await;

    // What lapses in the one is renewed in the other, and back again; what else the one has goes on.
    let (mut old, kept) = (acquire(one, resource).await, acquire(one, &crate::resource("resume/kept")).await);
    let (ticket, token) = (old.ticket().expect("a ticket"), old.token());
    for (before, next, releases) in [(one, other, true), (other, one, false)] {
        let renewed = answer(|| next.resume(&ticket)).await.expect("resume what is held");
        assert_eq!(renewed.token(), token, "the token of a lease that goes from one to another");
        {
            let mut lost = pin!(old.lost());
            while polled(&mut lost, 1).await.is_none() {
                still(&renewed).await;
                still(&kept).await;
                sleep(Duration::from_millis(200)).await;
            }
        }
        // It takes nothing from the one that renews it.
        match releases {
            true => assert_eq!(old.release().await, Ok(Released::Lapsed), "release what another process renews"),
            false => drop(old),
        }
        before.settle().await;
        still(&renewed).await;
        refused(&before.try_acquire(resource).await, resource, "try_acquire what another process renews");
        old = renewed;
    }
    release(kept).await;
    // What nobody renews is over, wherever it has been.
    assert_eq!(answered("the end", old.lost()).await, Loss::Expired);
    old.leave();
    let_go(resource).await;
    over(other, &ticket, "resume what went from one to another and lapsed").await;
    let next = acquire(one, resource).await;
    assert!(next.token() > token, "the token after {token}: {:?}", next.token());
    release(next).await;

    let lapsed = acquire(one, resource).await;
    let ticket = lapsed.ticket().expect("a ticket");
    assert_eq!(answered("the end", lapsed.lost()).await, Loss::Expired);
    lapsed.leave();
    let_go(resource).await;
    over(other, &ticket, "resume what has lapsed").await;
    let next = acquire(one, resource).await;
    over(other, &ticket, "resume what another holds").await;
    assert!(!next.valid_for().is_zero(), "the lease of the next holder");
    release(next).await;
}

/// Checks that a lease released early, whose lock stays held for the rest of a minimum time, is nobody's any more.
///
/// Build both as for [`resume_contract`].
pub async fn early_release_contract(one: &dyn Lock, other: &dyn Lock) {
    let (resource, rest) = (&resource("resume/early"), Duration::from_secs(2));
    let kept = one.with_lock_at_least_for(rest).unwrap();
    let start = Instant::now();
    let lease = acquire(&*kept, resource).await;
    let (ticket, token) = (lease.ticket().expect("a ticket"), lease.token());
    let [resumed, late] = [(); 2].map(async |()| answer(|| other.resume(&ticket)).await.expect("resume what is held"));
    let (resumed, late) = (resumed.await, late.await);
    release(lease).await;
    // A process that does not know yet does not end the rest.
    let _ = late.release().await;
    over(other, &ticket, "resume what was released early").await;
    over(one, &ticket, "resume what this process has released early").await;
    let renewed = answer(|| resumed.renew()).await;
    assert!(renewed.is_err(), "renew what was released early: {renewed:?}");
    resumed.leave();
    let next = acquire(other, resource).await;
    assert!(next.token() > token, "the token after {token}: {:?}", next.token());
    assert!(start.elapsed() >= rest * 99 / 100, "acquire what was released early: {:?}", start.elapsed());
    // What is left of the earlier lease is not the next one's.
    for _ in 0..5 {
        sleep(rest / 5).await;
        still(&next).await;
    }
    release(next).await;
}

async fn still(lease: &Lease) {
    answer(|| lease.renew()).await.expect("renew a lease that another process had");
}

/// A busy machine may take longer than a server has for its answer.
async fn answer<T, F: Future<Output = Result<T, RenewError>>>(ask: impl Fn() -> F) -> Result<T, RenewError> {
    loop {
        match answered("renew or resume", ask()).await {
            Err(RenewError::Failed { .. }) => {}
            outcome => return outcome,
        }
    }
}

async fn over(lock: &dyn Lock, ticket: &LeaseTicket, case: &str) {
    let resumed = answer(|| lock.resume(ticket)).await;
    assert!(matches!(&resumed, Err(RenewError::Lost(_))), "{case}: {resumed:?}");
}
