//! `fencing marks`: the high-water marks in a database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencing::fence::{FenceError, Marks as _};
use fencing::sql::{self, AdmitError, SqlMarks};
use fencing::{Resource, Token};

use crate::args::database::{
    Change, LowerArgs, MarksAction, MarksArgs, PruneArgs, RaiseArgs, RaiseFloorArgs,
};
use crate::exit::{self, Failure};
use crate::pool::{Pool, connect, on};
use crate::redis_marks;
use crate::say::{self, or_none};

/// How many marks are read at once.
const PAGE: u32 = 1000;

pub(crate) async fn main(args: MarksArgs) -> Result<u8, Failure> {
    match &args.action {
        Some(MarksAction::Raise(args)) => raise(args).await,
        Some(MarksAction::Lower(args)) => lower(args).await,
        Some(MarksAction::Prune(args)) => prune(args).await,
        Some(MarksAction::RaiseFloor(args)) => raise_floor(args).await,
        Some(MarksAction::Open(args)) => redis_marks::open(args).await,
        None => {
            let url = args.url.as_deref();
            let url = url
                .ok_or_else(|| Failure::usage("--database needs a URL, such as sqlite:data.db"))?;
            list(&connect(url, false, 1).await?, args.resource.as_ref()).await
        }
    }
    .map(|()| 0)
}

async fn list(pool: &Pool, resource: Option<&Resource>) -> Result<(), Failure> {
    if let Some(resource) = resource {
        let mark = on!(pool, pool => sql::highest(pool, resource).await)?;
        say::out(format_args!("{}\t{resource}\n", or_none(mark)));
        return Ok(());
    }
    let mut after = Vec::new();
    loop {
        let marks = on!(pool, pool => sql::marks(pool, &after, PAGE).await)?;
        let Some(last) = marks.last() else { return Ok(()) };
        for mark in &marks {
            match mark.parse() {
                Some((resource, token)) => say::out(format_args!("{token}\t{resource}\n")),
                None => {
                    let name = String::from_utf8_lossy(&mark.name);
                    say::out(format_args!("not a token: {:?}\t{name:?}\n", mark.number));
                }
            }
        }
        after.clone_from(&last.name);
    }
}

impl Change {
    async fn pool(&self) -> Result<Pool, Failure> {
        connect(&self.database.url, false, 1).await
    }

    /// Fails with what would be done, unless that was agreed to.
    fn agreed(&self, would: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.yes { Ok(()) } else { Err(Failure::usage(would())) }
    }
}

async fn raise(args: &RaiseArgs) -> Result<(), Failure> {
    let RaiseArgs { change, resource, token } = args;
    let pool = change.pool().await?;
    let from = or_none(on!(&pool, pool => sql::highest(pool, resource).await)?);
    change.agreed(|| {
        format!(
            "would raise the mark of {resource} from {from} to {token}: all smaller tokens are \
             refused from then on, for good. Add --yes to do it"
        )
    })?;
    // Its waits for locks are short, through a pooler as well.
    on!(&pool, pool => SqlMarks::new(pool.clone()).raise(resource, *token).await)?;
    say::out(format_args!("{token}\t{resource}\n"));
    Ok(())
}

async fn lower(args: &LowerArgs) -> Result<(), Failure> {
    let LowerArgs { change, resource, from, token } = args;
    let pool = change.pool().await?;
    let mark = or_none(on!(&pool, pool => sql::highest(pool, resource).await)?);
    change.agreed(|| {
        format!(
            "the mark is {mark}; would lower the mark of {resource} from {from} to {token}: {token} \
             and all larger tokens may write from then on, also those that were refused as stale. Choose a token \
             that is not below any that was granted. Add --yes to do it"
        )
    })?;
    on!(&pool, pool => sql::lower(pool, resource, *from, *token).await)?;
    say::out(format_args!("{token}\t{resource}\n"));
    Ok(())
}

async fn prune(args: &PruneArgs) -> Result<(), Failure> {
    let prune = sql::Prune::older_than(args.older_than).up_to(args.floor);
    let pool = args.change.pool().await?;
    if args.change.yes {
        let pruned = on!(&pool, pool => prune.run(pool).await)?;
        say::out(format_args!("{} marks removed, floor {}\n", pruned.marks, or_none(pruned.floor)));
        return Ok(());
    }
    let plan = on!(&pool, pool => prune.look(pool).await)?;
    let (marks, from, floor) = (plan.marks, or_none(plan.from), or_none(plan.floor));
    let Some((name, _)) = plan.highest else {
        return Err(Failure::usage(format_args!("would remove no mark; the floor is {from}")));
    };
    Err(Failure::usage(format_args!(
        "would remove {marks} marks, and raise the floor from {from} to {floor}. The highest of them is that \
         of {}. Where a resource has no mark, {floor} and all smaller tokens are refused from then on, for \
         good. Add --floor {floor} --yes to do it",
        String::from_utf8_lossy(&name)
    )))
}

async fn raise_floor(args: &RaiseFloorArgs) -> Result<(), Failure> {
    let floor = args.token.map_or_else(above_all_granted, Ok)?;
    let pool = args.change.pool().await?;
    args.change.agreed(|| {
        format!(
            "would raise the floor to {floor}, if it is lower: where a resource has no mark, {floor} and all smaller \
             tokens are refused from then on, for good, and new leases in this database get larger ones. Leases on Redis \
             nodes may not: for those name a --token below what they grant next. Add --yes to do it"
        )
    })?;
    on!(&pool, pool => sql::raise_floor(pool, floor).await)?;
    say::out(format_args!("floor {floor}\n"));
    Ok(())
}

/// Returns the seconds since 2026 and six zeros, as the databases take it that notice a failover: no resource has a
/// million grants in a second.
fn above_all_granted() -> Result<Token, Failure> {
    let year_2026 = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let since = SystemTime::now().duration_since(year_2026).map_err(Failure::usage)?;
    Token::new(since.as_secs() * 1_000_000).map_err(Failure::usage)
}

impl From<FenceError> for Failure {
    fn from(error: FenceError) -> Failure {
        match error {
            FenceError::Unreachable(cause) => match cause.downcast::<AdmitError>() {
                Ok(error) => Failure::from(*error),
                Err(cause) => Failure::refused(say::chain(&*cause)),
            },
            error => Failure::refused(say::chain(&error)),
        }
    }
}

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Failure {
        let status = if error.is_retryable() { exit::HELD } else { exit::REFUSED };
        Failure(status, say::chain(&error))
    }
}
