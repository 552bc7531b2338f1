use fencing::lock::RenewError;

use super::*;

/// Checks that the release of a lease which has lapsed in one process takes nothing from another, which has renewed it.
///
/// Build both over the same servers so that they do not renew, with a TTL of a few seconds.
pub async fn closed_contract(one: &dyn Lock, other: &dyn Lock) {
    let resource = &resource("closed");
    let lapsed = acquire(one, resource).await;
    let ticket = lapsed.ticket().expect("a ticket");
    let renewed = answer(|| other.resume(&ticket)).await.expect("resume what is held");
    {
        let mut lost = pin!(lapsed.lost());
        while polled(&mut lost, 1).await.is_none() {
            answer(|| renewed.renew()).await.expect("renew what was resumed");
            sleep(Duration::from_millis(200)).await;
        }
    }
    assert_eq!(lapsed.release().await, Ok(Released::Lapsed), "release what another process renews");
    one.settle().await;
    answer(|| renewed.renew()).await.expect("renew what has lapsed in another process");
    refused(&one.try_acquire(resource).await, resource, "try_acquire what another process renews");
    release(renewed).await;
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
