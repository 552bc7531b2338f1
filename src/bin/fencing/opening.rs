//! Marks in a Redis: reached, and opened by an operator.

use fencing::redis::{FencedError, RedisMarks, Standing};

use crate::args::{Open, RedisPlace};
use crate::pool::{Failure, usage};
use crate::{exit, say};

/// Whether a URL names a Redis.
pub(crate) fn is_redis(url: &str) -> bool {
    ["redis:", "rediss:", "unix:"].iter().any(|scheme| url.starts_with(scheme))
}

/// Reaches marks, and says how they stand.
pub(crate) async fn reach(url: &str, namespace: &str) -> Result<(RedisMarks, Standing), Failure> {
    let marks =
        RedisMarks::new(url, namespace).map_err(|error| usage(format!("--marks: {error}")))?;
    let found = marks.look().await.map_err(failure)?;
    Ok((marks, found))
}

pub(crate) async fn open(args: &Open) -> Result<(), Failure> {
    let RedisPlace { url, namespace } = &args.place;
    let (marks, found) = reach(url, namespace).await?;
    let floor = |floor: Option<fencing::Token>| floor.map_or("none".into(), |own| own.to_string());
    if !args.yes {
        let state = match (&found.opened_in, found.is_open()) {
            (_, true) => "open",
            (None, _) => "closed: never opened, or flushed, evicted or deleted since",
            (Some(_), false) => {
                "closed: the server was restarted, or took the place of another one, since they were opened"
            }
        };
        say::error(format_args!(
            "the marks are {state}; {} are there, floor {}; would open them with floor {}. Where marks are \
             missing, stale tokens above the floor pass. Add --yes to do it",
            found.marks,
            floor(found.floor),
            floor(args.floor.max(found.floor)),
        ));
        return Err(Failure(exit::USAGE, String::new()));
    }
    marks.open(&found, args.floor).await.map_err(failure)?;
    say::out(format_args!(
        "open, {} marks, floor {}\n",
        found.marks,
        floor(args.floor.max(found.floor))
    ));
    Ok(())
}

fn failure(error: FencedError) -> Failure {
    let status = match &error {
        FencedError::Unreachable(_) | FencedError::InDoubt(_) => exit::UNAVAILABLE,
        _ => exit::REFUSED,
    };
    Failure(status, error.to_string())
}
