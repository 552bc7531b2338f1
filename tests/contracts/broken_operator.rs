//! Operators that break one rule each.

use fencing::lock::sql::SqlLock;
use fencing::lock::{Fault, LeaseRecord, Operator};
use fencing::{Resource, sql};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::SqlitePool;

use crate::lock::{ONE, operator_contract};
use crate::{breach, sqlite};

#[derive(Debug, Clone, Copy)]
enum Flaw {
    ListsFromTheStart,
    EndsWhatHasEnded,
    EndsNothing,
}

#[derive(Debug)]
struct Flawed(Flaw, SqlitePool);

impl Operator for Flawed {
    fn leases<'a>(&'a self, after: Option<&'a Resource>, limit: u32) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        self.1.leases(after.filter(|_| !matches!(self.0, Flaw::ListsFromTheStart)), limit)
    }

    fn leases_of<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        self.1.leases_of(resource)
    }

    fn force_release<'a>(&'a self, lease: &'a LeaseRecord) -> BoxFuture<'a, Result<bool, Fault>> {
        match self.0 {
            Flaw::EndsNothing => async { Ok(false) }.boxed(),
            Flaw::EndsWhatHasEnded => async { self.1.force_release(lease).await.map(|_| true) }.boxed(),
            Flaw::ListsFromTheStart => self.1.force_release(lease),
        }
    }
}

#[tokio::test]
async fn flawed_operators_are_found_out() {
    for (flaw, case) in [
        (Flaw::ListsFromTheStart, "one after o/a"),
        (Flaw::EndsWhatHasEnded, "release by force what was ended"),
        (Flaw::EndsNothing, "release by force LeaseRecord"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let pool = sqlite(&folder).await;
        sql::migrate(&pool).await.unwrap();
        let lock = SqlLock::builder(pool.clone()).holder(ONE).build().unwrap();
        let breach = breach(operator_contract(&lock, &Flawed(flaw, pool))).await;
        assert!(breach.contains(case), "{flaw:?}: {breach}");
    }
}
