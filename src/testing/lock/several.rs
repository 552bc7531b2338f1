use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::future::{join, join_all};
use tokio::time::{sleep, timeout};

use super::{acquire, poll, release};
use crate::lock::{AcquireError, LeaseSet, Lock, Loss, Released};
use crate::testing::{ANSWER_WITHIN, Breach, Rule, resource};

/// How often the suite drops an acquisition, each time one poll later.
const POLLS: usize = 30;

/// Checks what acquires several resources with one call.
pub(super) async fn several(lock: &impl Lock) -> Result<(), Breach> {
    any(lock).await?;
    bounds(lock).await?;
    together(lock).await?;
    all_or_none(lock).await?;
    reversed(lock).await?;
    cancel(lock).await
}

fn names(of: &str) -> Result<[Resource; 3], Breach> {
    let name = |number| resource(&format!("{of}/{number}"));
    Ok([name(1)?, name(2)?, name(3)?])
}

async fn acquire_all(lock: &impl Lock, resources: &[Resource]) -> Result<LeaseSet, Breach> {
    let case = || format!("acquire_all {resources:?}");
    match timeout(ANSWER_WITHIN, lock.acquire_all(resources)).await {
        Ok(Ok(lease)) => Ok(lease),
        Ok(Err(error)) => Err(Rule::Answers.breach(case(), &error)),
        Err(_) => Err(Rule::Answers.breach(case(), &"no answer")),
    }
}

async fn release_all(lease: LeaseSet) -> Result<(), Breach> {
    let case = format!("release {lease:?}");
    Rule::Frees.same(case, &lease.release().await, &Ok(Released::Released))
}

/// Buckets: each is given to one, and who comes late waits for the first that is freed.
async fn any(lock: &impl Lock) -> Result<(), Breach> {
    let names = names("any")?;
    let mut leases = Vec::new();
    for wanted in &names {
        let lease = match timeout(ANSWER_WITHIN, lock.acquire_any(&names)).await {
            Ok(Ok(lease)) => lease,
            other => return Err(Rule::Several.breach("acquire_any", &other)),
        };
        Rule::Several.same("acquire_any takes the first", lease.resource(), wanted)?;
        leases.push(lease);
    }
    let brief = lock.with_wait(Duration::ZERO);
    let brief = brief.map_err(|error| Rule::Answers.breach("with_wait", &error))?;
    let found = brief.acquire_any(&names).await;
    let held = matches!(found, Err(AcquireError::Held { .. }));
    Rule::OneHolder.holds(held, "acquire_any where all are held", &found)?;
    let Some(last) = leases.pop() else { return Ok(()) };
    let (freed, token) = (AtomicBool::new(false), last.token());
    let holder = async {
        sleep(Duration::from_millis(200)).await;
        freed.store(true, Ordering::SeqCst);
        release(last).await
    };
    let waiter = async {
        match timeout(ANSWER_WITHIN, lock.acquire_any(&names)).await {
            Ok(Ok(lease)) => {
                Rule::Waits.holds(freed.load(Ordering::SeqCst), "acquire_any", &lease)?;
                Rule::TokensGrow.holds(lease.token() > token, "acquire_any after that", &lease)?;
                release(lease).await
            }
            other => Err(Rule::Several.breach("acquire_any where one is freed", &other)),
        }
    };
    let (held, waited) = join(holder, waiter).await;
    held.and(waited)?;
    for lease in leases {
        release(lease).await?;
    }
    Ok(())
}

async fn bounds(lock: &impl Lock) -> Result<(), Breach> {
    let many = (0..200).map(|number| resource(&format!("many/{number}")));
    let many: Vec<Resource> = many.collect::<Result<_, _>>()?;
    for list in [&[][..], &many] {
        let refused = |error| matches!(error, Some(AcquireError::WrongCount { .. }));
        let found = lock.acquire_all(list).await.err();
        let case = format!("acquire_all of {}", list.len());
        Rule::Several.holds(refused(found.clone()), case, &found)?;
        let found = lock.acquire_any(list).await.err();
        let case = format!("acquire_any of {}", list.len());
        Rule::Several.holds(refused(found.clone()), case, &found)?;
    }
    Ok(())
}

/// One lease of all, with a token for each.
async fn together(lock: &impl Lock) -> Result<(), Breach> {
    let names = names("all")?;
    let [one, two, three] = &names;
    let mut last = Vec::new();
    for name in &names {
        let lease = acquire(lock, name).await?;
        last.push(lease.token());
        release(lease).await?;
    }
    for dropped in [false, true] {
        let list = [three, one, two, one].map(Clone::clone);
        let lease = acquire_all(lock, &list).await?;
        let found: Vec<_> = lease.sequencers().iter().map(|pair| pair.resource.clone()).collect();
        Rule::Several.same("the resources of acquire_all", &found, &names.to_vec())?;
        let tokens: Vec<_> = names.iter().filter_map(|name| lease.token_of(name)).collect();
        let grew = tokens.iter().zip(&last).all(|(token, last)| token > last);
        let case = format!("acquire_all after {last:?}");
        Rule::TokensGrow.holds(grew && tokens.len() == last.len(), case, &tokens)?;
        last = tokens;
        Rule::Several.same("token_of another", &lease.token_of(&resource("else")?), &None)?;
        for name in &names {
            let found = lock.try_acquire(name).await;
            let held = matches!(&found, Err(AcquireError::Held { .. }));
            Rule::OneHolder.holds(held, "try_acquire one of several that are held", &found)?;
        }
        Rule::Work.same("run under acquire_all", &lease.run(async { 3 }).await, &Ok(3))?;
        let found = lease.renew().await;
        Rule::Several.holds(found.is_ok(), "renew several", &found)?;
        let lost = lease.lost();
        if dropped {
            drop(lease);
        } else {
            release_all(lease).await?;
        }
        Rule::LossReported.same("lost() of several", &lost.await, &Loss::Released)?;
    }
    for (name, last) in names.iter().zip(last) {
        let lease = acquire(lock, name).await?;
        Rule::TokensGrow.holds(lease.token() > last, format!("acquire after {last}"), &lease)?;
        release(lease).await?;
    }
    Ok(())
}

/// Where one is held, none is taken.
async fn all_or_none(lock: &impl Lock) -> Result<(), Breach> {
    let names = names("none")?;
    let brief = lock.with_wait(Duration::ZERO);
    let brief = brief.map_err(|error| Rule::Answers.breach("with_wait", &error))?;
    for name in &names {
        let lease = acquire(lock, name).await?;
        let found = brief.acquire_all(&names).await.map(drop);
        let held = matches!(&found, Err(AcquireError::Held { resource, .. }) if resource == name);
        Rule::OneHolder.holds(held, format!("acquire_all, {name} is held"), &found)?;
        for other in names.iter().filter(|other| *other != name) {
            let case = "after an acquire_all that was refused";
            super::free(lock, Rule::AllOrNone, other, case).await?;
        }
        let waiter = acquire_all(lock, &names);
        let holder = async {
            sleep(Duration::from_millis(50)).await;
            release(lease).await
        };
        let (freed, all) = join(holder, waiter).await;
        freed?;
        release_all(all?).await?;
    }
    Ok(())
}

/// Clients that name the resources in different orders all get them, one after another.
async fn reversed(lock: &impl Lock) -> Result<(), Breach> {
    let [one, two, three] = names("reversed")?;
    let lists = [
        vec![one.clone(), two.clone(), three.clone()],
        vec![three.clone(), two.clone(), one.clone()],
        vec![two.clone(), three.clone()],
        vec![two, one],
    ];
    let (inside, last) = (AtomicUsize::new(0), Mutex::new(None));
    let clients = lists.iter().cycle().take(8).map(|list| async {
        let lease = acquire_all(lock, list).await?;
        // Each of the lists has the second.
        let shared = lease.sequencers().iter().find(|pair| pair.resource.as_str().ends_with('2'));
        let token = shared.map(|pair| pair.token);
        let others = inside.fetch_add(1, Ordering::SeqCst);
        let before = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(token);
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        Rule::OneHolder.same("others inside, of 8 at once", &others, &0)?;
        Rule::TokensGrow.holds(
            Some(token) > before,
            format!("granted after {before:?}"),
            &token,
        )?;
        release_all(lease).await
    });
    join_all(clients).await.into_iter().collect()
}

async fn cancel(lock: &impl Lock) -> Result<(), Breach> {
    let names = names("dropped")?;
    for polls in 0..POLLS {
        poll(polls, lock.acquire_all(&names)).await;
        let case = format!("after {polls} polls of an acquire_all that was dropped");
        for name in &names {
            super::free(lock, Rule::CancelSafe, name, &case).await?;
        }
        poll(polls, lock.acquire_any(&names)).await;
        let case = format!("after {polls} polls of an acquire_any that was dropped");
        for name in &names {
            super::free(lock, Rule::CancelSafe, name, &case).await?;
        }
    }
    let lease = acquire_all(lock, &names).await?;
    poll(1, lease.release()).await;
    for name in &names {
        super::free(lock, Rule::Frees, name, "after a release was polled once").await?;
    }
    Ok(())
}
