//! Marks in a Redis: reached, and opened by an operator.

use fencing::fence::Marks;
use fencing::redis::{FencedError, MarksState, RedisMarks};

use crate::args::{OpenArgs, RedisPlace};
use crate::exit::Failure;
use crate::say::{self, or_none};

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
    let RedisPlace { url, namespace } = &args.place;
    let (marks, found) = reach(url, namespace).await?;
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
