use std::future::pending;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::timeout;

use super::acquire;
use super::end::reported;
use crate::lock::{Lock, Loss, Released};
use crate::testing::{ANSWER_WITHIN, Breach, Rule, resource};

/// Checks that the leases of a lock service end as they must.
///
/// Build the service so that it does not renew them, with a TTL of a few seconds at most.
///
/// # Errors
/// Returns the first [`Breach`].
pub async fn lapse_contract(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("lapse")?;
    let first = acquire(lock, &resource).await?;
    let ends = join(first.lost(), join_all([first.lost(), first.lost()]));
    reported("lost() of a lease that is not renewed", ends, Loss::Expired).await?;
    Rule::LossReported.same("validity after the loss", &first.valid_for(), &Duration::ZERO)?;

    let second = acquire(lock, &resource).await?;
    let (token, before) = (second.token(), first.token());
    Rule::TokensGrow.holds(token > before, format!("acquire after {before} lapsed"), &token)?;
    let found = first.release().await;
    Rule::Frees.same("release a lapsed lease", &found, &Ok(Released::Lapsed))?;
    let left = second.valid_for();
    Rule::OneHolder.holds(!left.is_zero(), "validity after a lapsed lease's release", &left)?;

    let case = "work under a lease that is not renewed";
    match timeout(ANSWER_WITHIN, second.run(pending::<()>())).await {
        Ok(Err(lost)) => {
            let found = (lost.token, lost.loss);
            Rule::Work.same(case, &found, &(token, Loss::Expired))?;
        }
        Ok(Ok(())) | Err(_) => return Err(Rule::Work.breach(case, &"no end")),
    }
    let found = second.run(async {}).await.is_err();
    Rule::Work.same("whether work under a lapsed lease is refused", &found, &true)
}
