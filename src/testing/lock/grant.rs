use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use futures_util::future::{join, join_all};
use tokio::time::sleep;

use super::{acquire, release};
use crate::lock::{AcquireError, Lock};
use crate::sequencer::Sequencer;
use crate::testing::{Breach, NAMES, Rule, resource};

pub(super) async fn tokens_grow(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("tokens")?;
    let mut last: Option<Token> = None;
    for _ in 0..20 {
        let lease = acquire(lock, &resource).await?;
        let token = lease.token();
        Rule::TokensGrow.holds(Some(token) > last, format!("acquire after {last:?}"), &token)?;
        let pair = Sequencer::new(resource.clone(), token);
        Rule::Work.same("the sequencer of a lease", &lease.sequencer(), &pair)?;
        last = Some(token);
        release(lease).await?;
    }
    Ok(())
}

pub(super) async fn one_holder(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("held")?;
    let lease = acquire(lock, &resource).await?;
    Rule::Work.same("the resource of a lease", lease.resource(), &resource)?;
    let left = lease.valid_for();
    Rule::LossReported.holds(!left.is_zero(), "the validity of a lease", &left)?;
    for _ in 0..3 {
        let found = lock.try_acquire(&resource).await;
        let right = matches!(&found, Err(AcquireError::Held { resource: named, retry_after, .. })
            if *named == resource && !retry_after.is_zero());
        Rule::OneHolder.holds(right, "try_acquire what is held", &found)?;
    }
    release(lease).await
}

pub(super) async fn apart(lock: &impl Lock) -> Result<(), Breach> {
    let names: Vec<Resource> = NAMES.into_iter().map(resource).collect::<Result<_, _>>()?;
    let mut leases = Vec::new();
    for name in &names {
        match lock.try_acquire(name).await {
            Ok(lease) => leases.push(lease),
            Err(error) => {
                let case = format!("try_acquire {name} while others are held");
                return Err(Rule::NamesApart.breach(case, &error));
            }
        }
    }
    for lease in leases {
        release(lease).await?;
    }
    Ok(())
}

pub(super) async fn waits(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("wait")?;
    let first = acquire(lock, &resource).await?;
    let (token, freed) = (first.token(), AtomicBool::new(false));
    let holder = async {
        for _ in 0..20 {
            sleep(Duration::from_millis(10)).await;
        }
        freed.store(true, Ordering::SeqCst);
        release(first).await
    };
    let waiter = async {
        let lease = acquire(lock, &resource).await?;
        Rule::Waits.holds(freed.load(Ordering::SeqCst), "acquire what is held", &lease)?;
        Rule::TokensGrow.holds(lease.token() > token, format!("acquire after {token}"), &lease)?;
        release(lease).await
    };
    let (held, waited) = join(holder, waiter).await;
    held.and(waited)
}

/// Runs many clients at once: never two hold the lock, and tokens grow in the order of the
/// grants.
pub(super) async fn concurrent(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("concurrent")?;
    let (inside, last) = (AtomicUsize::new(0), Mutex::new(None::<Token>));
    let clients = (0..12).map(|_| async {
        let lease = acquire(lock, &resource).await?;
        let others = inside.fetch_add(1, Ordering::SeqCst);
        let before = last.lock().unwrap_or_else(PoisonError::into_inner).replace(lease.token());
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        inside.fetch_sub(1, Ordering::SeqCst);
        Rule::OneHolder.same("others inside, of 12 at once", &others, &0)?;
        let grew = Some(lease.token()) > before;
        Rule::TokensGrow.holds(grew, format!("granted next after {before:?}"), &lease.token())?;
        release(lease).await
    });
    join_all(clients).await.into_iter().collect()
}
