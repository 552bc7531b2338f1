use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use fencing::fence::{FenceError, Marks as _, Stale};
use fencing::lock::ConnectOptions;
use fencing::redis::{MarksState, RedisMarks};
use fencing::sql::{self, SqlMarks};
use fencing::{Resource, Token};
use fencing_protocol::EPOCH;

use crate::duration;
use crate::exit::Failure;
use crate::lock_service::{LockService, LockUrl, NAMESPACE};
use crate::pool::{DatabaseUrl, on, with_timeout, with_timeout_of};
use crate::say::{self, or_none};

/// Lists the marks: for each resource, the highest token that the database has seen.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct MarksArgs {
    #[command(flatten)]
    database: Option<DatabaseUrl>,
    /// Lists the mark of this resource only.
    #[arg(long, value_name = "NAME")]
    resource: Option<Resource>,
    #[command(subcommand)]
    action: Option<MarksAction>,
}

#[derive(Debug, Subcommand)]
enum MarksAction {
    /// Raises the mark of a resource by hand, as after the lock service has lost its tokens. Never lowers one.
    Raise {
        #[command(flatten)]
        change: MarkChange,
        /// The resource whose mark is raised.
        #[arg(long, value_name = "NAME")]
        resource: Resource,
        /// The new mark: all smaller tokens are refused from then on.
        #[arg(long, value_name = "TOKEN")]
        token: Token,
    },
    /// Lowers a mark that a token never granted has raised. The table fencing_audit records who did it.
    Lower {
        #[command(flatten)]
        change: MarkChange,
        /// The resource whose mark is lowered.
        #[arg(long, value_name = "NAME")]
        resource: Resource,
        /// The mark as it is now. If it has moved since you looked, nothing is lowered.
        #[arg(long, value_name = "MARK")]
        from: Token,
        /// The new mark: this token and all larger ones may write from then on.
        #[arg(long, value_name = "TOKEN")]
        token: Token,
    },
    /// Removes marks that were not raised for a long time. The floor takes their place: where a resource has no mark,
    /// the highest removed token, and all smaller ones, are refused for good.
    ///
    /// Choose an age longer than a holder keeps one token. With Redis nodes, keep the floor below what they grant now.
    Prune {
        #[command(flatten)]
        change: MarkChange,
        /// Removes only marks last raised at least this long ago, as in 90d or 12h.
        #[arg(long, value_name = "AGE", value_parser = duration::parse)]
        older_than: Duration,
        /// The highest floor: marks above it stay. Without --yes the command says where the floor would be.
        #[arg(long, value_name = "TOKEN", default_value_t = Token::MAX, hide_default_value = true)]
        floor: Token,
    },
    /// Raises the floor above every token that may have been granted in this database. Run it after leases were lost: a
    /// replica that was behind was promoted, or a backup was restored. Lost tokens are then not granted again, and are
    /// refused once the next holder has written. A floor never falls.
    RaiseFloor {
        #[command(flatten)]
        change: MarkChange,
        /// The new floor: tokens are granted above it [default: the seconds since 2026 by this machine, and six zeros].
        #[arg(long, value_name = "TOKEN")]
        token: Option<Token>,
    },
    Open(OpenArgs),
}

#[derive(Debug, clap::Args)]
struct MarkChange {
    #[command(flatten)]
    database: DatabaseUrl,
    /// Confirms the change. Without this, the command only says what it would do.
    #[arg(long)]
    yes: bool,
}

impl MarkChange {
    fn agreed(&self, would: impl Display) -> Result<(), Failure> {
        Failure::usage_unless(self.yes, format_args!("{would}. Add --yes to do it"))
    }
}

/// Opens the marks in a Redis. Until then everything is refused there: a server that is new, was flushed or
/// restarted, or took the place of another one, may have forgotten marks.
///
/// Without --yes the command says what is there. Opening is safe if there were never any marks, or if none is lost:
/// after a restart that lost no write (appendfsync always). If some may be lost, give a floor.
#[derive(Debug, clap::Args)]
struct OpenArgs {
    /// The Redis: redis://HOST, rediss://HOST or unix://PATH; valkey:// and valkeys:// mean the same.
    #[arg(long = "marks", value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    url: String,
    /// The marks are in the hash {NS}:marks.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    namespace: String,
    /// Where a resource has no higher mark, smaller tokens are refused permanently. Choose a floor not below any token
    /// granted before, and make sure that the lock service grants larger ones.
    #[arg(long, value_name = "TOKEN")]
    floor: Option<Token>,
    /// Confirms a --floor above all present marks and the present floor.
    #[arg(long, requires = "floor")]
    above_marks: bool,
    /// The state of the marks, as printed without --yes. If the marks have changed since, nothing is opened.
    #[arg(long, value_name = "WORD")]
    seen: Option<MarksState>,
    /// Opens the marks if their state is still that of --seen. Without this, the command only says what it would do.
    #[arg(long, requires = "seen")]
    yes: bool,
}

const PAGE: u32 = 1000;
/// The timeout of a prune, which removes a thousand marks at a time. What it has removed by then stays removed.
const PRUNE_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) async fn main(args: MarksArgs) -> Result<(), Failure> {
    let Some(action) = args.action else {
        let none = || Failure::usage("give --database");
        return list(&args.database.ok_or_else(none)?, args.resource.as_ref()).await;
    };
    let done = match action {
        MarksAction::Raise { change, resource, token } => raise(&change, &resource, token).await?,
        MarksAction::Lower { change, resource, from, token } => lower(&change, &resource, from, token).await?,
        MarksAction::Prune { change, older_than, floor } => prune(&change, older_than, floor).await?,
        MarksAction::RaiseFloor { change, token } => raise_floor(&change, token).await?,
        MarksAction::Open(args) => open(&args).await?,
    };
    say::out(format_args!("{done}\n"));
    Ok(())
}

async fn list(database: &DatabaseUrl, resource: Option<&Resource>) -> Result<(), Failure> {
    let pool = database.connect(false).await?;
    if let Some(resource) = resource {
        let mark = on!(&pool, pool => with_timeout(sql::highest(pool, resource)).await)?;
        say::out(format_args!("{}\t{resource}\n", or_none(mark)));
        return Ok(());
    }
    let mut after = Vec::new();
    loop {
        let marks = on!(&pool, pool => with_timeout(sql::marks(pool, &after, PAGE)).await)?;
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

async fn raise(change: &MarkChange, resource: &Resource, token: Token) -> Result<String, Failure> {
    let pool = change.database.connect(false).await?;
    let mark = on!(&pool, pool => with_timeout(sql::highest(pool, resource)).await)?;
    Stale::check(resource, token, mark).map_err(FenceError::from)?;
    let from = or_none(mark);
    change.agreed(format_args!(
        "would raise the mark of {resource} from {from} to {token}: all smaller tokens are refused permanently"
    ))?;
    // Its waits for locks are short, through a pooler as well.
    on!(pool, pool => with_timeout(SqlMarks::new(pool).raise(resource, token)).await)?;
    Ok(format!("{token}\t{resource}"))
}

async fn lower(change: &MarkChange, resource: &Resource, from: Token, token: Token) -> Result<String, Failure> {
    let pool = change.database.connect(false).await?;
    let mark = on!(&pool, pool => with_timeout(sql::highest(pool, resource)).await)?;
    let is_from = mark == Some(from) || from == Token::MAX;
    let mark = or_none(mark);
    if !is_from && !change.yes {
        return Err(Failure::refused(format_args!("would lower nothing: the mark is {mark}, not {from}")));
    }
    change.agreed(format_args!(
        "the mark is {mark}; would lower the mark of {resource} from {from} to {token}: {token} and all larger tokens \
         may write from then on, including those refused as stale. Choose a token that is not below any granted"
    ))?;
    on!(&pool, pool => with_timeout(sql::lower(pool, resource, from, token)).await)?;
    // Without a mark, the lease's last token was lowered.
    let mark = on!(&pool, pool => with_timeout(sql::highest(pool, resource)).await).unwrap_or(Some(token));
    Ok(format!("{}\t{resource}", or_none(mark)))
}

async fn prune(change: &MarkChange, older_than: Duration, floor: Token) -> Result<String, Failure> {
    let prune = sql::Prune::older_than(older_than).up_to(floor);
    let pool = change.database.connect(false).await?;
    let plan = on!(&pool, pool => with_timeout(prune.look(pool)).await)?;
    if change.yes {
        let pruned = on!(&pool, pool => with_timeout_of(PRUNE_TIMEOUT, prune.run(pool)).await)?;
        return Ok(format!("{} marks removed, floor {}", pruned.marks, or_none(pruned.floor)));
    }
    let (marks, from, floor) = (plan.marks, or_none(plan.from), or_none(plan.floor));
    let Some((name, _)) = plan.highest else {
        return Err(Failure::usage(format_args!("would remove no mark; the floor is {from}")));
    };
    Err(Failure::usage(format_args!(
        "would remove {marks} marks, and raise the floor from {from} to {floor}. The highest removed mark is \
         that of {}. Where a resource has no mark, {floor} and all smaller tokens are refused permanently. \
         Add --floor {floor} --yes to do it",
        String::from_utf8_lossy(&name)
    )))
}

async fn raise_floor(change: &MarkChange, token: Option<Token>) -> Result<String, Failure> {
    let floor = token.map_or_else(above_all_granted, Ok)?;
    let last = Token::MAX.get() - 2;
    Failure::usage_unless(floor.get() <= last, format_args!("--token is at most {last}: no token would be left"))?;
    let pool = change.database.connect(false).await?;
    change.agreed(format_args!(
        "would raise the floor to {floor}, if it is lower: where a resource has no mark, {floor} and all smaller \
         tokens are refused permanently, and new leases in this database get larger ones. Leases on Redis nodes may \
         get smaller ones: for nodes see the runbook, Marks are lost"
    ))?;
    on!(&pool, pool => with_timeout(sql::raise_floor(pool, floor)).await)?;
    Ok(format!("the floor is {floor} or higher"))
}

/// Returns the seconds since 2026 and six zeros, as after a failover: no resource has a million grants in a second.
fn above_all_granted() -> Result<Token, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH + EPOCH).unwrap_or_default();
    let wrong = |_| Failure::usage("the clock of this machine is wrong: set it, or give the new floor with --token");
    Token::new(since.as_secs().saturating_mul(1_000_000)).map_err(wrong)
}

pub(crate) enum MarksStore {
    Redis(Box<RedisMarks>),
    Database(String),
}

#[derive(Debug, clap::Args)]
pub(crate) struct MarksUrl {
    /// Where the storage keeps its marks: sqlite:PATH, postgres://... or mysql://..., or redis://... (valkey://...)
    /// [default: the database of --database]. In a Redis that was restarted, this records that the marks are closed.
    #[arg(long, value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    marks: Option<String>,
}

impl MarksUrl {
    /// Returns the lock service, and where the marks are: in its database, unless another place is given.
    pub(crate) fn beside(&self, lock: &LockUrl) -> Result<(LockService, Option<MarksStore>), Failure> {
        let given = self.marks.as_deref().filter(|url| !url.is_empty());
        let given = given.map(|url| MarksStore::new(url, lock.namespace())).transpose()?;
        let in_redis = matches!(given, Some(MarksStore::Redis(_)));
        let chosen = if in_redis { lock.chosen_beside_redis_marks() } else { lock.chosen() }?;
        let own = if let LockService::Database(url) = &chosen { Some(MarksStore::Database(url.clone())) } else { None };
        Ok((chosen, given.or(own)))
    }
}

impl MarksStore {
    pub(crate) fn new(url: &str, namespace: &str) -> Result<MarksStore, Failure> {
        match ConnectOptions::new(url).engine() {
            Ok("redis") => in_redis(url, namespace).map(Box::new).map(MarksStore::Redis),
            Ok("sqlite" | "postgres" | "mysql") => Ok(MarksStore::Database(url.to_owned())),
            _ => Err(Failure::usage("--marks: the URL must begin with sqlite:, postgres:, mysql:, redis: or valkey:")),
        }
    }
}

fn in_redis(url: &str, namespace: &str) -> Result<RedisMarks, Failure> {
    let wrong = |error| Failure::usage(format_args!("--marks: {error}"));
    RedisMarks::new(url, namespace).map_err(wrong)
}

pub(crate) fn state(found: &MarksState) -> &'static str {
    match (&found.opened_in, found.is_open()) {
        (_, true) => "open",
        (None, _) => "closed: never opened, or restarted empty, flushed, evicted or deleted since",
        (Some(_), false) => "closed: the server was restarted or replaced since they were opened",
    }
}

async fn open(args: &OpenArgs) -> Result<String, Failure> {
    let marks = in_redis(&args.url, &args.namespace)?;
    let found = marks.look().await?;
    check_floor(args, &marks, &found).await?;
    let floor = or_none(args.floor.max(found.floor));
    let Some(seen) = args.seen.as_ref().filter(|_| args.yes) else {
        return Err(Failure::usage(format_args!(
            "the marks are {}; {} are there, floor {}; would open them with floor {floor}. Where marks are \
             missing, stale tokens above the floor pass. If there ever were marks, give a --floor. Add --seen {found} \
             --yes to do it",
            state(&found),
            found.marks,
            or_none(found.floor),
        )));
    };
    marks.open(seen, args.floor).await?;
    Ok(format!("open, {} marks, floor {floor}", seen.marks))
}

/// Refuses a floor above everything that is there, unless it is said to be meant: it would never fall again.
async fn check_floor(args: &OpenArgs, marks: &RedisMarks, found: &MarksState) -> Result<(), Failure> {
    let Some(floor) = args.floor.filter(|_| !args.above_marks) else { return Ok(()) };
    let listed = marks.list(None, usize::MAX).await;
    let listed = listed.map_err(|error| Failure::unavailable(say::chain(&error)))?;
    let highest = listed.into_iter().map(|(_, token)| token).max().max(found.floor);
    if Some(floor) <= highest {
        return Ok(());
    }
    let there = highest.map_or("there is none".into(), |highest| format!("the highest is {highest}"));
    Err(Failure::usage(format_args!(
        "the floor {floor} is above all marks and the present floor: {there}. A floor never falls. Add \
         --above-marks if you mean it"
    )))
}
