use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use futures_util::future::{join, join_all};
use tokio::time::{sleep, timeout};

use super::{acquire, free, poll, release};
use crate::lock::{AcquireError, Lock, Loss, Released, SharedLease};
use crate::testing::{ANSWER_WITHIN, Breach, Rule, resource};

/// How often the suite drops an acquisition, each time one poll later.
const POLLS: usize = 30;

/// Checks that a lock service lets several share a lock.
///
/// No other client may use it meanwhile. It must wait for 10 s at least, and its TTL must be longer than
/// a second.
///
/// # Errors
/// Returns the first [`Breach`].
pub async fn shared_contract(lock: &impl Lock) -> Result<(), Breach> {
    together(lock).await?;
    alone(lock).await?;
    ends(lock).await?;
    cancel(lock).await?;
    waits(lock).await?;
    turns(lock).await?;
    mixed(lock).await
}

async fn share(lock: &impl Lock, resource: &Resource) -> Result<SharedLease, Breach> {
    let case = || format!("acquire_shared {resource}");
    match timeout(ANSWER_WITHIN, lock.acquire_shared(resource)).await {
        Ok(Ok(lease)) => Ok(lease),
        Ok(Err(error)) => Err(Rule::Answers.breach(case(), &error)),
        Err(_) => Err(Rule::Answers.breach(case(), &"no answer")),
    }
}

async fn leave(lease: SharedLease) -> Result<(), Breach> {
    let case = format!("release a part in {}", lease.resource());
    Rule::Frees.same(case, &lease.release().await, &Ok(Released::Released))
}

async fn is_held(lock: &impl Lock, resource: &Resource, case: &str) -> Result<(), Breach> {
    let found = lock.try_acquire(resource).await;
    let right = matches!(&found, Err(AcquireError::Held { resource: named, retry_after, .. })
        if named == resource && !retry_after.is_zero());
    Rule::OneHolder.holds(right, case, &found)
}

/// Several hold it together, and nobody alone beside them.
async fn together(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("shared")?;
    let writer = acquire(lock, &resource).await?;
    let before = writer.token();
    release(writer).await?;
    let first = share(lock, &resource).await?;
    let second = match lock.try_acquire_shared(&resource).await {
        Ok(lease) => lease,
        Err(error) => {
            return Err(Rule::Together.breach("try_acquire_shared what is shared", &error));
        }
    };
    let third = share(lock, &resource).await?;
    let tokens = [first.token(), second.token(), third.token()];
    let larger = tokens.iter().all(|token| *token > before);
    Rule::TokensGrow.holds(larger, format!("share after {before}"), &tokens)?;
    Rule::Work.same("the resource of a shared lease", first.resource(), &resource)?;
    let left = second.renew().await;
    Rule::Together.holds(left.is_ok(), "renew one part of three", &left)?;
    is_held(lock, &resource, "try_acquire what three share").await?;
    leave(first).await?;
    is_held(lock, &resource, "try_acquire what two share").await?;
    leave(third).await?;
    let found = second.run(async { 1 }).await;
    Rule::Work.same("run under a shared lease", &found, &Ok(1))?;
    is_held(lock, &resource, "try_acquire what one of three still shares").await?;
    leave(second).await?;
    let next = acquire(lock, &resource).await?;
    let larger = tokens.iter().all(|token| next.token() > *token);
    Rule::TokensGrow.holds(larger, format!("acquire after {tokens:?}"), &next.token())?;
    release(next).await
}

/// What one holds alone is not shared.
async fn alone(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("shared/alone")?;
    let writer = acquire(lock, &resource).await?;
    let found = lock.try_acquire_shared(&resource).await;
    let right = matches!(&found, Err(AcquireError::Held { resource: named, retry_after, .. })
        if *named == resource && !retry_after.is_zero());
    Rule::OneHolder.holds(right, "try_acquire_shared what one holds alone", &found)?;
    drop(found);
    let (token, freed) = (writer.token(), AtomicBool::new(false));
    let holder = async {
        sleep(Duration::from_millis(200)).await;
        freed.store(true, Ordering::SeqCst);
        release(writer).await
    };
    let reader = || async {
        let lease = share(lock, &resource).await?;
        let right = freed.load(Ordering::SeqCst) && lease.token() > token;
        Rule::Waits.holds(right, "acquire_shared what one holds alone", &lease)?;
        sleep(Duration::from_millis(50)).await;
        leave(lease).await
    };
    let (held, readers) = join(holder, join_all((0..5).map(|_| reader()))).await;
    held.and(readers.into_iter().collect())
}

/// A part ends by a release or a drop, and its loss is reported.
async fn ends(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("shared/ends")?;
    for case in ["after a release", "after a drop", "after a release was polled once"] {
        let lease = share(lock, &resource).await?;
        let lost = lease.lost();
        match case {
            "after a release" => leave(lease).await?,
            "after a drop" => drop(lease),
            _ => poll(1, lease.release()).await,
        }
        match timeout(ANSWER_WITHIN, lost).await {
            Ok(loss) => Rule::LossReported.same(case, &loss, &Loss::Released)?,
            Err(_) => return Err(Rule::LossReported.breach(case, &"no answer")),
        }
        free(lock, Rule::Frees, &resource, case).await?;
    }
    Ok(())
}

async fn cancel(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("shared/cancel")?;
    for polls in 0..POLLS {
        for waits in [true, false] {
            match waits {
                true => poll(polls, lock.acquire_shared(&resource)).await,
                false => poll(polls, lock.try_acquire_shared(&resource)).await,
            }
            let case = format!("after {polls} polls of a shared acquisition that was dropped");
            free(lock, Rule::CancelSafe, &resource, &case).await?;
        }
    }
    Ok(())
}

/// Who waits to hold it alone gets it when the last of those who share it has left.
async fn waits(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("shared/waits")?;
    let parts = [share(lock, &resource).await?, share(lock, &resource).await?];
    let (tokens, left) = (parts.each_ref().map(SharedLease::token), AtomicUsize::new(0));
    let holders = async {
        for part in parts {
            sleep(Duration::from_millis(100)).await;
            left.fetch_add(1, Ordering::SeqCst);
            leave(part).await?;
        }
        Ok(())
    };
    let writer = async {
        let lease = acquire(lock, &resource).await?;
        Rule::Waits.same("left when one holds alone", &left.load(Ordering::SeqCst), &2)?;
        let larger = tokens.iter().all(|token| lease.token() > *token);
        Rule::TokensGrow.holds(larger, format!("acquire after {tokens:?}"), &lease)?;
        release(lease).await
    };
    let (held, waited) = join(holders, writer).await;
    held.and(waited)
}

/// Those who share it take turns so that it is never free, and somebody waits to hold it alone.
async fn turns(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("shared/turns")?;
    let over = AtomicBool::new(false);
    let reader = |number: u64| {
        let (over, resource) = (&over, &resource);
        async move {
            let mut inside = Some(share(lock, resource).await?);
            sleep(Duration::from_millis(40 * number)).await;
            while !over.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(80)).await;
                // Another one is inside at any time.
                if let Some(lease) = inside.take() {
                    leave(lease).await?;
                }
                inside = Some(share(lock, resource).await?);
            }
            inside.take().map_or(Ok(()), |lease| {
                drop(lease);
                Ok(())
            })
        }
    };
    let writer = async {
        sleep(Duration::from_millis(200)).await;
        let lease = timeout(ANSWER_WITHIN, lock.acquire(&resource)).await;
        over.store(true, Ordering::SeqCst);
        match lease {
            Ok(Ok(lease)) => release(lease).await,
            other => Err(Rule::NotStarved.breach("acquire what others share in turns", &other)),
        }
    };
    let (readers, writer) = join(join_all((0..4).map(reader)), writer).await;
    writer.and(readers.into_iter().collect())
}

/// Runs clients of both modes at once: who holds it alone is alone, and tokens keep their order.
async fn mixed(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("shared/mixed")?;
    let (readers, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let most = AtomicUsize::new(0);
    // The largest token so far, and the largest of one that held it alone.
    let largest = Mutex::new((None::<Token>, None::<Token>));
    let reader = |_| async {
        let lease = share(lock, &resource).await?;
        let beside = readers.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(beside, Ordering::SeqCst);
        let alone = writers.load(Ordering::SeqCst);
        Rule::OneHolder.same("who holds alone beside one that shares", &alone, &0)?;
        {
            let mut largest = largest.lock().unwrap_or_else(PoisonError::into_inner);
            let right = Some(lease.token()) > largest.1;
            Rule::TokensGrow.holds(right, format!("share after {:?}", largest.1), &lease)?;
            largest.0 = largest.0.max(Some(lease.token()));
        }
        sleep(Duration::from_millis(20)).await;
        readers.fetch_sub(1, Ordering::SeqCst);
        leave(lease).await
    };
    let writer = |_| async {
        let lease = acquire(lock, &resource).await?;
        let others = writers.fetch_add(1, Ordering::SeqCst) + readers.load(Ordering::SeqCst);
        Rule::OneHolder.same("others beside one that holds alone", &others, &0)?;
        {
            let mut largest = largest.lock().unwrap_or_else(PoisonError::into_inner);
            let right = Some(lease.token()) > largest.0;
            Rule::TokensGrow.holds(right, format!("acquire after {:?}", largest.0), &lease)?;
            *largest = (Some(lease.token()), Some(lease.token()));
        }
        tokio::task::yield_now().await;
        writers.fetch_sub(1, Ordering::SeqCst);
        release(lease).await
    };
    let both = join(join_all((0..12).map(reader)), join_all((0..6).map(writer))).await;
    let results = both.0.into_iter().chain(both.1);
    results.collect::<Result<(), Breach>>()?;
    let most = most.load(Ordering::SeqCst);
    Rule::Together.holds(most > 1, "how many of 12 shared it at one time", &most)
}
