//! Asks the nodes and the databases, again and again. Each source asks its next question when the last one was
//! answered, and has a bound of its own: one that hangs holds up nothing else.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use fencing::fence::Marks as _;
use fencing::redis::RedisMarks;
use fencing::{Resource, sql};
use tokio::sync::watch::Sender;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::view::{MarkList, Moment, View};
use crate::exit::{self, Failure};
use crate::pool::{self, Pool, on};
use crate::say;

/// Time limit for a database.
const DATABASE: Duration = Duration::from_secs(10);
/// The most marks counted.
pub(super) const COUNTED: u32 = 1000;

/// Asks until the end, and passes each answer on. It returns a failure that no later answer can mend.
pub(super) async fn refresh<T>(
    view: &Sender<View>,
    mut ask: impl AsyncFnMut() -> Result<T, Failure>,
    set: impl Fn(&mut View, Moment, Result<T, String>),
) -> Result<Infallible, Failure> {
    let mut seen = view.subscribe();
    let mut ticks = interval(view.borrow().every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let _ = seen.wait_for(|view| view.paused.is_none()).await;
        let answer = match ask().await {
            Err(wrong @ Failure(exit::USAGE, _)) => return Err(wrong),
            Err(Failure(_, text)) => Err(say::without_passwords(&text)),
            Ok(answer) => Ok(answer),
        };
        view.send_modify(|view| set(view, Moment::now(), answer));
    }
}

/// Asks a database. After a failure the next question takes a new connection.
pub(super) async fn ask<T>(
    option: &str,
    url: &str,
    kept: &mut Option<Pool>,
    question: impl AsyncFnOnce(&Pool) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let last = kept.take();
    within(async {
        let pool = match last {
            Some(pool) => pool,
            None => pool::connect(option, url, false, 1).await?,
        };
        let answer = question(&pool).await?;
        *kept = Some(pool);
        Ok(answer)
    })
    .await
}

pub(super) async fn marks_in_database(
    pool: &Pool,
    wanted: Vec<Resource>,
) -> Result<MarkList, Failure> {
    let rows = on!(pool, pool => sql::marks(pool, &[], COUNTED).await)?;
    let mut of = BTreeMap::new();
    for resource in wanted {
        let mark = on!(pool, pool => sql::highest(pool, &resource).await)?;
        of.insert(resource, mark);
    }
    Ok(MarkList { count: rows.len() as u64, of, ..MarkList::default() })
}

pub(super) async fn marks_in_redis(
    marks: &RedisMarks,
    wanted: Vec<Resource>,
) -> Result<MarkList, Failure> {
    within(async {
        let found = marks.look().await.map_err(failed)?;
        let mut of = BTreeMap::new();
        for resource in wanted.into_iter().filter(|_| found.is_open()) {
            let mark = marks.highest(&resource).await.map_err(failed)?;
            of.insert(resource, mark);
        }
        let closed = !found.is_open();
        Ok(MarkList { count: found.marks, floor: found.floor, closed, of })
    })
    .await
}

async fn within<T>(asked: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = || Failure::unavailable(format_args!("no answer within {DATABASE:?}"));
    timeout(DATABASE, asked).await.unwrap_or_else(|_| Err(late()))
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::unavailable(say::chain(&error))
}
