//! `fencing raise`: tokens of etcd or ZooKeeper after a restore.

use fencing::Token;
use wildmatch::WildMatch;

use crate::exit::Failure;
use crate::leases::LeaseList;
use crate::place::{Chosen, LockPlace, Service};
use crate::pool::answer;
use crate::say;

/// Raises the tokens of etcd or ZooKeeper above one, after a restore from a backup took their counts back.
///
/// It ends all leases that are there. No lock is granted until the holders of those before the restore have stopped,
/// which takes the longest TTL. Tokens never fall: a lower --above changes none.
#[derive(Debug, clap::Args)]
pub(crate) struct RaiseArgs {
    #[command(flatten)]
    place: LockPlace,
    /// The largest token that may have been given out: see the marks of the storage, and its log.
    #[arg(long, value_name = "TOKEN")]
    above: Token,
    /// Does it. Without this, the command only says what it would do.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn main(args: RaiseArgs) -> Result<u8, Failure> {
    let RaiseArgs { place, above, yes } = args;
    let service = match place.chosen(false)? {
        Chosen::Service(service @ Service::Engine { .. }) => service.operator().await?,
        Chosen::Service(_) => {
            return Err(Failure::usage("a database has `fencing marks raise-floor` for that"));
        }
        Chosen::Redis(_) => return Err(Failure::usage("nodes have `fencing fleet` for that")),
    };
    let held = LeaseList::of_service(&*service, &WildMatch::new("*")).await?.all.len();
    Failure::unless(
        yes,
        format_args!(
            "would raise all later tokens above {above}, end {held} leases, and grant none until earlier holders have \
             stopped. Add --yes to do it"
        ),
    )?;
    answer(service.raise(above)).await?;
    say::out(format_args!("above {above}, {held} leases ended\n"));
    Ok(0)
}
