use fencing::lock::LeaseSet;

use super::end::ends;
use super::*;

/// As many at once as fit in every service.
const MOST: usize = 127;

pub async fn several(lock: &dyn Lock, other: &dyn Lock) {
    any(lock, other).await;
    bounds(lock).await;
    together(lock).await;
    all_or_none(lock).await;
    reversed([lock, other]).await;
    cancel(lock).await
}

fn names(of: &str) -> [Resource; 3] {
    [1, 2, 3].map(|number| resource(&format!("{of}/{number}")))
}

async fn acquire_all(lock: &dyn Lock, resources: &[Resource]) -> LeaseSet {
    let case = format!("acquire_all {resources:?}");
    let acquired = answered(&case, lock.acquire_all(resources)).await;
    acquired.unwrap_or_else(|error| panic!("{case}: {error:?}"))
}

async fn acquire_any(lock: &dyn Lock, resources: &[Resource]) -> Lease {
    let acquired = answered("acquire_any", lock.acquire_any(resources)).await;
    acquired.unwrap_or_else(|error| panic!("acquire_any {resources:?}: {error:?}"))
}

/// Buckets: each is given to one, and who comes late waits for the first that is freed.
async fn any(lock: &dyn Lock, other: &dyn Lock) {
    let names = names("any");
    let mut leases = Vec::new();
    for wanted in &names {
        let lease = acquire_any(lock, &names).await;
        assert_eq!(lease.resource(), wanted, "acquire_any takes the first");
        leases.push(lease);
    }
    let brief = lock.with_wait(Duration::ZERO).unwrap();
    let found = brief.acquire_any(&names).await;
    let held = matches!(found, Err(AcquireError::Held { .. }));
    assert!(held, "acquire_any where all are held: {found:?}");
    let last = leases.pop().unwrap();
    let token = last.token();
    let next = after(release(last), acquire_any(other, &names)).await;
    assert!(next.token() > token, "acquire_any after {token}: {next:?}");
    leases.push(next);
    join_all(leases.into_iter().map(release)).await;
}

async fn bounds(lock: &dyn Lock) {
    let many: Vec<_> = (0..200).map(|number| resource(&format!("many/{number}"))).collect();
    for list in [&[][..], &many] {
        let (all, any) = (lock.acquire_all(list).await.err(), lock.acquire_any(list).await.err());
        for found in [all, any] {
            let wrong = matches!(found, Some(AcquireError::WrongCount { .. }));
            assert!(wrong, "{} at once: {found:?}", list.len());
        }
    }
}

/// One lease of all, with a token for each.
async fn together(lock: &dyn Lock) {
    let names = names("all");
    let [one, two, three] = &names;
    let mut last = Vec::new();
    for name in &names {
        let lease = acquire(lock, name).await;
        last.push(lease.token());
        release(lease).await;
    }
    let list = [three, one, two, one].map(Clone::clone);
    let lease = acquire_all(lock, &list).await;
    let found: Vec<_> = lease.sequencers().iter().map(|pair| pair.resource.clone()).collect();
    assert_eq!(found, names.to_vec(), "the resources of acquire_all");
    let tokens: Vec<_> = names.iter().filter_map(|name| lease.token_of(name)).collect();
    let grew = tokens.iter().zip(&last).all(|(token, last)| token > last);
    let case = format!("acquire_all after {last:?}");
    assert!(grew && tokens.len() == last.len(), "{case}: {tokens:?}");
    assert_eq!(lease.token_of(&resource("else")), None, "token_of another");
    for name in &names {
        refused(&lock.try_acquire(name).await, name, "try_acquire one of several");
    }
    assert_eq!(lease.run(async { 3 }).await, Ok(3), "run under acquire_all");
    lease.renew().await.unwrap();
    release(lease).await;
    for (name, last) in names.iter().zip(tokens) {
        let lease = acquire(lock, name).await;
        assert!(lease.token() > last, "acquire after {last}: {lease:?}");
        release(lease).await;
    }
}

/// Where one is held, none is taken, however many there are.
async fn all_or_none(lock: &dyn Lock) {
    let names = names("none");
    let brief = lock.with_wait(Duration::ZERO).unwrap();
    let many: Vec<_> = (0..MOST).map(|number| resource(&format!("most/{number}"))).collect();
    let held = acquire(lock, &many[MOST / 2]).await;
    let found = answered("acquire_all of many, one of them is held", async {
        loop {
            match brief.acquire_all(&many).await {
                // A busy server may take longer for so many.
                Err(AcquireError::Unavailable { .. }) => sleep(Duration::from_millis(10)).await,
                found => return found,
            }
        }
    });
    let found = found.await;
    refused(&found, &many[MOST / 2], "acquire_all, one of many is held");
    free(lock, &many[0], "after an acquire_all of many that was refused").await;
    release(held).await;
    let all = acquire_all(lock, &many).await;
    all.renew().await.unwrap();
    refused(&lock.try_acquire(&many[MOST - 1]).await, &many[MOST - 1], "try_acquire the last of many");
    release(all).await;
    for name in &names {
        let lease = acquire(lock, name).await;
        let found = brief.acquire_all(&names).await;
        refused(&found, name, "acquire_all, one of them is held");
        for other in names.iter().filter(|other| *other != name) {
            free(lock, other, "after an acquire_all that was refused").await;
        }
        release(after(release(lease), acquire_all(lock, &names)).await).await;
    }
}

/// Clients that name the resources in different orders all get them, one after another.
async fn reversed(locks: [&dyn Lock; 2]) {
    let [one, two, three] = names("reversed");
    let lists = [
        vec![one.clone(), two.clone(), three.clone()],
        vec![three.clone(), two.clone(), one.clone()],
        vec![two.clone(), three.clone()],
        vec![two, one],
    ];
    let inside = Inside::default();
    let client = async |(number, list): (usize, &Vec<Resource>)| {
        // Each of them in both orders.
        let lease = acquire_all(locks[number / 4], list).await;
        // Each of the lists has the second.
        let common = lease.sequencers().iter().find(|pair| pair.resource.as_str().ends_with('2'));
        inside.visit(false, common.unwrap().token).await;
        release(lease).await
    };
    join_all(lists.iter().cycle().take(8).enumerate().map(client)).await;
}

async fn cancel(lock: &dyn Lock) {
    let names = names("dropped");
    dropped(lock, &names, "an acquire_all", || lock.acquire_all(&names)).await;
    dropped(lock, &names, "an acquire_any", || lock.acquire_any(&names)).await;
    ends(lock, &names, async || acquire_all(lock, &names).await).await;
}
