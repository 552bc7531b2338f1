//! The marks of the storage.

use std::collections::BTreeMap;
use std::time::Duration;

use fencing::fence::Marks as _;
use fencing::redis::RedisMarks;
use fencing::sql;
use fencing::{Resource, Token};
use tokio::time::timeout;

use super::sources::{DATABASE, Database, OnScreen, Source};
use super::told::{Marks, Told};
use crate::pool::{Failure, Pool, on};
use crate::{exit, say};

/// How many marks are counted.
const COUNTED: u32 = 1000;

/// The marks in a database, and which of them are looked at.
pub(super) struct MarksInDatabase {
    pub(super) database: Database,
    pub(super) shown: OnScreen,
}

impl Source for MarksInDatabase {
    async fn ask(&mut self) -> Told {
        let shown = self.shown.borrow_and_update().clone();
        match self.database.ask(async |pool| read(pool, shown).await).await {
            Err(Failure(exit::USAGE, text)) => Told::Wrong(text),
            Err(Failure(_, text)) => Told::Marks(Err(text)),
            Ok(marks) => Told::Marks(Ok(marks)),
        }
    }
}

async fn read(pool: &Pool, shown: Vec<Resource>) -> Result<Marks, String> {
    let rows = on!(pool, pool => sql::marks(pool, &[], COUNTED + 1).await);
    let rows = rows.map_err(|error| say::chain(&error))?;
    let more = rows.len() > COUNTED as usize;
    let count = if more { u64::from(COUNTED) } else { rows.len() as u64 };
    let known: BTreeMap<Resource, Token> = rows.iter().filter_map(sql::Mark::parse).collect();
    let mut of = BTreeMap::new();
    for resource in shown {
        let mark = match known.get(&resource) {
            Some(mark) => Some(*mark),
            None if !more => None,
            None => {
                let mark = on!(pool, pool => sql::highest(pool, &resource).await);
                mark.map_err(|error| say::chain(&error))?
            }
        };
        of.insert(resource, mark);
    }
    Ok(Marks { count, more, floor: None, closed: false, of })
}

/// The marks in a Redis.
pub(super) struct MarksInRedis {
    pub(super) marks: RedisMarks,
    pub(super) shown: OnScreen,
    pub(super) longest: Duration,
}

impl Source for MarksInRedis {
    async fn ask(&mut self) -> Told {
        let shown = self.shown.borrow_and_update().clone();
        let longest = self.longest.max(DATABASE);
        let late = |_| Err(format!("no answer within {longest:?}"));
        Told::Marks(timeout(longest, look(&self.marks, shown)).await.unwrap_or_else(late))
    }
}

async fn look(marks: &RedisMarks, shown: Vec<Resource>) -> Result<Marks, String> {
    let found = marks.look().await.map_err(|error| say::chain(&error))?;
    let mut of = BTreeMap::new();
    if found.is_open() {
        for resource in shown {
            let mark = marks.highest(&resource).await;
            of.insert(resource, mark.map_err(|error| say::chain(&error))?);
        }
    }
    let closed = !found.is_open();
    Ok(Marks { count: found.marks, more: false, floor: found.floor, closed, of })
}
