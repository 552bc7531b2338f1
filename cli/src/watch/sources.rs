//! Asks the nodes and the databases, again and again. Each source asks its next question when the last one was
//! answered, and has a bound of its own: one that hangs holds up nothing else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use fencing::fence::Marks as _;
use fencing::redis::RedisMarks;
use fencing::{Resource, sql};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::view::{MarkList, Moment, View};
use crate::exit::{self, Failure};
use crate::pool::{self, Pool, on};
use crate::say;

/// How long a database may take.
const DATABASE: Duration = Duration::from_secs(10);
/// How many marks are counted.
pub(super) const COUNTED: u32 = 1000;

/// The view, and the notices of its changes.
pub(super) struct SharedView {
    pub(super) view: RefCell<View>,
    pub(super) changed: Notify,
    pub(super) resumed: Notify,
}

impl SharedView {
    pub(super) fn on_screen(&self) -> Vec<Resource> {
        self.view.borrow().on_screen()
    }

    /// Asks until the end, and passes each answer on. It returns a failure that no later answer can mend.
    pub(super) async fn refresh<T>(
        &self,
        mut ask: impl AsyncFnMut() -> Result<T, Failure>,
        set: impl Fn(&mut View, Moment, Result<T, String>),
    ) -> Result<Infallible, Failure> {
        let mut ticks = interval(self.view.borrow().every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            while self.view.borrow().paused.is_some() {
                self.resumed.notified().await;
            }
            let answer = match ask().await {
                Err(wrong @ Failure(exit::USAGE, _)) => return Err(wrong),
                Err(Failure(_, text)) => Err(say::without_passwords(&text)),
                Ok(answer) => Ok(answer),
            };
            set(&mut self.view.borrow_mut(), Moment::now(), answer);
            self.changed.notify_one();
        }
    }
}

/// A database, connected to when it is asked.
pub(super) struct OnDatabase {
    url: String,
    pool: Option<Pool>,
}

impl OnDatabase {
    pub(super) fn new(url: &str) -> OnDatabase {
        OnDatabase { url: url.to_owned(), pool: None }
    }

    /// Asks it. After a failure the next question takes a new connection.
    pub(super) async fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Pool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let kept = self.pool.take();
        let asked = async {
            let pool = match kept {
                Some(pool) => pool,
                None => pool::connect(&self.url, false, 1).await?,
            };
            Ok((question(&pool).await?, pool))
        };
        let (answer, pool) = timeout(DATABASE, asked).await.unwrap_or_else(|_| late(DATABASE))?;
        self.pool = Some(pool);
        Ok(answer)
    }
}

pub(super) async fn marks_in_database(
    pool: &Pool,
    wanted: Vec<Resource>,
) -> Result<MarkList, Failure> {
    let rows = on!(pool, pool => sql::marks(pool, &[], COUNTED).await).map_err(failed)?;
    let mut of = BTreeMap::new();
    for resource in wanted {
        let mark = on!(pool, pool => sql::highest(pool, &resource).await).map_err(failed)?;
        of.insert(resource, mark);
    }
    Ok(MarkList { count: rows.len() as u64, of, ..MarkList::default() })
}

/// Reads the marks in a Redis.
pub(super) async fn marks_in_redis(
    marks: &RedisMarks,
    wanted: Vec<Resource>,
) -> Result<MarkList, Failure> {
    let asked = async {
        let found = marks.look().await.map_err(failed)?;
        let mut of = BTreeMap::new();
        for resource in wanted.into_iter().filter(|_| found.is_open()) {
            let mark = marks.highest(&resource).await.map_err(failed)?;
            of.insert(resource, mark);
        }
        let closed = !found.is_open();
        Ok(MarkList { count: found.marks, floor: found.floor, closed, of })
    };
    timeout(DATABASE, asked).await.unwrap_or_else(|_| late(DATABASE))
}

fn late<T>(bound: Duration) -> Result<T, Failure> {
    Err(Failure::unavailable(format_args!("no answer within {bound:?}")))
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::unavailable(say::chain(&error))
}
