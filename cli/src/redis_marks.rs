//! The place of marks, and how an operator opens those in a Redis.

use fencing::Token;
use fencing::fence::Marks;
use fencing::redis::{FencedError, MarksState, RedisMarks};

use crate::exit::Failure;
use crate::place::NAMESPACE;
use crate::pool;
use crate::say::{self, or_none};

/// Opens the marks in a Redis. Until then everything is refused there: a server that is new, was flushed or
/// restarted, or took the place of another one, may have forgotten marks.
///
/// Without --yes the command says what is there. It is safe where there were never any marks, and where all of them
/// are there: after a restart that lost no write (appendfsync always). Where some may be lost, give a floor.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs {
    /// The Redis: redis://HOST, rediss://HOST or unix://PATH; valkey:// and valkeys:// mean the same.
    #[arg(long = "marks", value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    url: String,
    /// The marks are in the hash {NS}:marks.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    namespace: String,
    /// Where a resource has no higher mark, smaller tokens are refused from then on, for good. Choose one not
    /// below any token granted before, and make sure that the lock service grants larger ones.
    #[arg(long, value_name = "TOKEN")]
    floor: Option<Token>,
    /// Confirms a --floor above all present marks and the present floor.
    #[arg(long, requires = "floor")]
    above_marks: bool,
    /// The word that the command prints without --yes, for the state of the marks then. If they have changed since,
    /// nothing is opened.
    #[arg(long, value_name = "WORD")]
    seen: Option<MarksState>,
    /// Opens them as they were --seen. Without this, the command only says what it would do.
    #[arg(long, requires = "seen")]
    yes: bool,
}

pub(crate) enum MarksPlace {
    Redis(Box<RedisMarks>),
    Database(String),
}

impl MarksPlace {
    pub(crate) fn new(url: &str, namespace: &str) -> Result<MarksPlace, Failure> {
        let schemes =
            ["redis:", "rediss:", "valkey:", "valkeys:", "unix:", "redis+unix:", "valkey+unix:"];
        if schemes.iter().any(|scheme| url.starts_with(scheme)) {
            return in_redis(url, namespace).map(Box::new).map(MarksPlace::Redis);
        }
        let schemes = "--marks: the URL begins with sqlite:, postgres:, mysql:, redis: or valkey:";
        pool::kind(url).map_err(|_| Failure::usage(schemes))?;
        Ok(MarksPlace::Database(url.to_owned()))
    }
}

fn in_redis(url: &str, namespace: &str) -> Result<RedisMarks, Failure> {
    let wrong = |error| Failure::usage(format_args!("--marks: {error}"));
    RedisMarks::new(url, namespace).map_err(wrong)
}

pub(crate) async fn open(args: &OpenArgs) -> Result<(), Failure> {
    let marks = in_redis(&args.url, &args.namespace)?;
    let found = marks.look().await?;
    check_floor(args, &marks, &found).await?;
    let floor = or_none(args.floor.max(found.floor));
    let Some(seen) = args.seen.as_ref().filter(|_| args.yes) else {
        let state = match (&found.opened_in, found.is_open()) {
            (_, true) => "open",
            (None, _) => "closed: never opened, or flushed, evicted or deleted since",
            (Some(_), false) => {
                "closed: the server was restarted or replaced since they were opened"
            }
        };
        return Err(Failure::usage(format_args!(
            "the marks are {state}; {} are there, floor {}; would open them with floor {floor}. Where marks are \
             missing, stale tokens above the floor pass. Add --seen {found} --yes to do it",
            found.marks,
            or_none(found.floor),
        )));
    };
    marks.open(seen, args.floor).await?;
    say::out(format_args!("open, {} marks, floor {floor}\n", seen.marks));
    Ok(())
}

/// Refuses a floor above everything that is there, unless it is said to be meant: it would never fall again.
async fn check_floor(
    args: &OpenArgs,
    marks: &RedisMarks,
    found: &MarksState,
) -> Result<(), Failure> {
    let Some(floor) = args.floor.filter(|_| !args.above_marks) else { return Ok(()) };
    let listed = marks.list(None, usize::MAX).await;
    let listed = listed.map_err(|error| Failure::unavailable(say::chain(&error)))?;
    let highest = listed.into_iter().map(|(_, token)| token).max().max(found.floor);
    if Some(floor) <= highest {
        return Ok(());
    }
    let there =
        highest.map_or("there is none".into(), |highest| format!("the highest is {highest}"));
    Err(Failure::usage(format_args!(
        "the floor {floor} is above all marks and the floor: {there}. A floor never falls. Add --above-marks if \
         it is meant"
    )))
}

impl From<FencedError> for Failure {
    fn from(error: FencedError) -> Failure {
        match error {
            FencedError::Unreachable(_) | FencedError::InDoubt(_) => Failure::unavailable(error),
            _ => Failure::refused(error),
        }
    }
}
