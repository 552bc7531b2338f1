//! Asks the nodes and the databases, again and again. Each source asks its next question when the last one was
//! answered, and has a bound of its own: one that hangs holds up nothing else.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fencing::fence::Marks;
use fencing::lock::Operator;
use fencing::redis::RedisMarks;
use fencing::sql::{self, SqlMarks};
use tokio::sync::watch::Sender;
use tokio::time::{MissedTickBehavior, interval, timeout};
use wildmatch::WildMatch;

use super::view::{MarkList, Moment, View};
use crate::exit::{Failure, Status};
use crate::leases::LeaseList;
use crate::lock_service::LockService;
use crate::marks::MarksStore;
use crate::pool::{Pool, connect, on};
use crate::say;

/// A node's time limit to list its locks, in budgets.
const LIST: u32 = 10;
pub(super) const MAX_MARKS: u32 = 1000;

/// Asks until the end, with a bound for each answer, and passes each on. Fails where no later answer can mend it.
pub(super) async fn refresh<T>(
    view: &Sender<View>,
    bound: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, Failure>,
    set: impl Fn(&mut View, Moment, Result<T, String>),
) -> Result<Infallible, Failure> {
    let mut seen = view.subscribe();
    let mut ticks = interval(view.borrow().every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let _ = seen.wait_for(|view| view.paused.is_none()).await;
        let late = |_| Err(Failure::unavailable(format_args!("no answer within {bound:?}")));
        let answer = match timeout(bound, ask()).await.unwrap_or_else(late) {
            Err(wrong @ Failure { status: Status::USAGE, .. }) => return Err(wrong),
            Err(failure) => Err(say::without_passwords(&failure.message)),
            Ok(answer) => Ok(answer),
        };
        view.send_modify(|view| set(view, Moment::now(), answer));
    }
}

/// Lists the leases. A service is asked over the connection that the last answer has `kept`. Without an answer there is
/// none: only a new connection says why it cannot be made.
pub(super) async fn leases(
    service: &LockService,
    glob: &WildMatch,
    budget: Duration,
    kept: &mut Option<Arc<dyn Operator>>,
) -> Result<LeaseList, Failure> {
    if let LockService::Redis(redis) = service {
        return LeaseList::on_nodes(redis, glob, budget, LIST * budget).await;
    }
    let operator = if let Some(operator) = kept.take() { operator } else { service.operator().await? };
    let list = LeaseList::of_service(&*operator, glob).await?;
    // The file of SQLite may be another one by then.
    let is_file = matches!(service, LockService::Database(url) if url.starts_with("sqlite:"));
    *kept = Some(operator).filter(|_| !is_file);
    Ok(list)
}

/// Looks at the marks, and reads those of the leases on the screen. `kept` is as for the leases.
pub(super) async fn marks(
    store: &MarksStore,
    budget: Duration,
    view: &Sender<View>,
    kept: &mut Option<Pool>,
) -> Result<MarkList, Failure> {
    let (last, mut next) = (kept.take(), None);
    let (wanted, mut list) = (view.borrow().on_screen(), MarkList::default());
    let marks: Box<dyn Marks> = match store {
        MarksStore::Redis(marks) => {
            let marks = RedisMarks::clone(marks).budget(budget);
            let found = marks.look().await?;
            (list.count, list.floor, list.closed) = (found.marks, found.floor, !found.is_open());
            Box::new(marks)
        }
        MarksStore::Database(url) => {
            let pool = if let Some(pool) = last { pool } else { connect("the marks", url, false, 1).await? };
            let rows = on!(&pool, pool => sql::marks(pool, &[], MAX_MARKS).await)?;
            list.count = rows.len() as u64;
            next = Some(pool.clone()).filter(|pool| !matches!(pool, Pool::Sqlite(_)));
            on!(pool, pool => Box::new(SqlMarks::new(pool)) as Box<dyn Marks>)
        }
    };
    for resource in wanted.into_iter().filter(|_| !list.closed) {
        let mark = marks.highest(&resource).await?;
        list.of.insert(resource, mark);
    }
    *kept = next;
    Ok(list)
}
