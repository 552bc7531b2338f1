//! Marks in a Redis: reached, and opened by an operator.

use fencing::Token;
use fencing::fence::Marks;
use fencing::redis::{FencedError, MarksState, RedisMarks};

use crate::args::{Open, RedisPlace};
use crate::pool::{Failure, usage};
use crate::{exit, say};

/// Whether a URL names a Redis.
pub(crate) fn is_redis(url: &str) -> bool {
    ["redis:", "rediss:", "valkey:", "valkeys:", "unix:"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
}

/// Reaches marks, and says how they stand.
pub(crate) async fn reach(url: &str, namespace: &str) -> Result<(RedisMarks, MarksState), Failure> {
    let marks =
        RedisMarks::new(url, namespace).map_err(|error| usage(format!("--marks: {error}")))?;
    let found = marks.look().await.map_err(failure)?;
    Ok((marks, found))
}

pub(crate) async fn open(args: &Open) -> Result<(), Failure> {
    let RedisPlace { url, namespace } = &args.place;
    let (marks, found) = reach(url, namespace).await?;
    check_floor(args, &marks, found.floor).await?;
    let floor = |floor: Option<Token>| floor.map_or("none".into(), |own| own.to_string());
    let Some(seen) = args.seen.as_ref().filter(|_| args.yes) else {
        let state = match (&found.opened_in, found.is_open()) {
            (_, true) => "open",
            (None, _) => "closed: never opened, or flushed, evicted or deleted since",
            (Some(_), false) => {
                "closed: the server was restarted, or took the place of another one, since they were opened"
            }
        };
        say::error(format_args!(
            "the marks are {state}; {} are there, floor {}; would open them with floor {}. Where marks are \
             missing, stale tokens above the floor pass. Add --seen {found} --yes to do it",
            found.marks,
            floor(found.floor),
            floor(args.floor.max(found.floor)),
        ));
        return Err(Failure(exit::USAGE, String::new()));
    };
    marks.open(seen, args.floor).await.map_err(failure)?;
    say::out(format_args!(
        "open, {} marks, floor {}\n",
        seen.marks,
        floor(args.floor.max(found.floor))
    ));
    Ok(())
}

/// Refuses a floor above everything that is there, unless it is said to be meant: it would never fall again.
async fn check_floor(args: &Open, marks: &RedisMarks, known: Option<Token>) -> Result<(), Failure> {
    let Some(floor) = args.floor.filter(|_| !args.above_marks) else { return Ok(()) };
    let listed = marks.list(None, usize::MAX).await;
    let listed = listed.map_err(|error| Failure(exit::UNAVAILABLE, say::chain(&error)))?;
    let highest = listed.into_iter().map(|(_, token)| token).max().max(known);
    if Some(floor) <= highest {
        return Ok(());
    }
    let there =
        highest.map_or("there is none".into(), |highest| format!("the highest is {highest}"));
    Err(usage(format_args!(
        "the floor {floor} is above all marks and the floor: {there}. A floor never falls. Add --above-marks if \
         it is meant"
    )))
}

fn failure(error: FencedError) -> Failure {
    let status = match &error {
        FencedError::Unreachable(_) | FencedError::InDoubt(_) => exit::UNAVAILABLE,
        _ => exit::REFUSED,
    };
    Failure(status, error.to_string())
}
