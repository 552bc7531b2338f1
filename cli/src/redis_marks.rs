//! Marks in a Redis: reached, and opened by an operator.

use fencing::Token;
use fencing::fence::Marks;
use fencing::redis::{FencedError, MarksState, RedisMarks};

use crate::exit::Failure;
use crate::place::NAMESPACE;
use crate::say::{self, or_none};

/// Opens the marks in a Redis. Until then everything is refused there: a server that is new, was flushed or
/// restarted, or took the place of another one, may have forgotten marks.
///
/// Without --yes the command says what is there. It is safe where there were never any marks, and where all of them
/// are there: after a restart that lost no write (appendfsync always). Where some may be lost, give a floor.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs {
    /// The Redis: redis://HOST, rediss://HOST or unix://PATH; valkey:// and valkeys:// mean the same. Other
    /// users can see a command line, so put a URL with a password in the environment.
    #[arg(long = "marks", value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    url: String,
    /// The marks are in the hash {NS}:marks.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    namespace: String,
    /// Where a resource has no higher mark, smaller tokens are refused from then on, for good. Choose one that no
    /// token of before has passed, and see that the lock service grants larger ones.
    #[arg(long, value_name = "TOKEN")]
    floor: Option<Token>,
    /// Says that a --floor above all marks that are there, and above the floor, is meant, and is no typo.
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

/// Whether a URL names a Redis.
pub(crate) fn is_redis(url: &str) -> bool {
    let schemes = ["redis:", "rediss:", "valkey:", "valkeys:", "unix:"];
    schemes.iter().any(|scheme| url.starts_with(scheme))
}

/// Reaches marks, and reports their state.
pub(crate) async fn reach(url: &str, namespace: &str) -> Result<(RedisMarks, MarksState), Failure> {
    let wrong = |error| Failure::usage(format_args!("--marks: {error}"));
    let marks = RedisMarks::new(url, namespace).map_err(wrong)?;
    let state = marks.look().await?;
    Ok((marks, state))
}

pub(crate) async fn open(args: &OpenArgs) -> Result<(), Failure> {
    let (marks, found) = reach(&args.url, &args.namespace).await?;
    check_floor(args, &marks, &found).await?;
    let floor = or_none(args.floor.max(found.floor));
    let Some(seen) = args.seen.as_ref().filter(|_| args.yes) else {
        let state = match (&found.opened_in, found.is_open()) {
            (_, true) => "open",
            (None, _) => "closed: never opened, or flushed, evicted or deleted since",
            (Some(_), false) => {
                "closed: the server was restarted, or took the place of another one, since they were opened"
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
