use fencing::Token;
use wildmatch::WildMatch;

use crate::exit::{Failure, Status};
use crate::leases::LeaseList;
use crate::lock_service::{ChosenLock, LockService, LockUrl, closed};
use crate::pool::with_timeout;
use crate::say;

/// It leaves room for centuries of tokens.
const HIGHEST: u64 = 900_000_000_000_000;

/// Raises the tokens of etcd or ZooKeeper above --above, after a restore from a backup.
///
/// This ends all leases. Then no lock is granted until earlier holders have stopped: in etcd for the longest TTL and a
/// third of it, in ZooKeeper for maxSessionTimeout. Tokens never fall: too low an --above only ends the leases.
#[derive(Debug, clap::Args)]
pub(crate) struct RaiseArgs {
    #[command(flatten)]
    lock: LockUrl,
    /// The largest token in the marks and all clients' logs. If unsure, add 1000000000000.
    #[arg(long, value_name = "TOKEN")]
    above: Token,
    /// Confirms the raise. Without this, the command only says what it would do.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn main(args: RaiseArgs) -> Result<Status, Failure> {
    let RaiseArgs { lock, above, yes } = args;
    let engine = match lock.chosen()? {
        LockService::Redis(_) => return Err(Failure::usage("for nodes use `fencing fleet`")),
        LockService::Database(_) => return Err(Failure::usage("for a database use `fencing db marks raise-floor`")),
        engine @ LockService::Engine { .. } => engine,
    };
    let (fits, last) = (above.get() <= HIGHEST, Token::MAX);
    let why =
        format_args!("--above is at most {HIGHEST}, to leave tokens for later: they never fall, and end at {last}");
    Failure::usage_unless(fits, why)?;
    let service = engine.operator().await?;
    let held = match LeaseList::of_service(&*service, &WildMatch::new("*")).await {
        Ok(leases) => leases.all.len().to_string(),
        // What cannot be read is replaced.
        Err(Failure { status: Status::REFUSED, .. }) => "unknown".to_owned(),
        Err(failure) => return Err(failure),
    };
    let would = format_args!(
        "would raise all later tokens above {above}, end every lease (held now: {held}), and grant none until \
         earlier holders have stopped. Add --yes to do it"
    );
    Failure::usage_unless(yes, would)?;
    let lock = ChosenLock::open(engine.options().holder("operator")).await?.lock;
    with_timeout(service.raise(above)).await?;
    let closed = closed(&lock.health().await).unwrap_or("no lock is granted until earlier leases have ended".into());
    say::out(format_args!("later tokens are above {above}; leases ended: {held}\n{closed}\n"));
    Ok(Status::DONE)
}
