use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scopeguard::{ScopeGuard, guard};
use sqlx::{Connection, Pool};
use tokio::time::timeout;

use super::fault;
use crate::database::{Database, TextRow, fill};
use crate::holder::Holder;
use crate::lock::operator::{LeaseRecord, Operator};

impl<DB: Database> Operator for Pool<DB> {
    fn leases<'a>(&'a self, after: Option<&'a Resource>, limit: u32) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        Box::pin(read(self, ">", after.map_or("", Resource::as_str), limit))
    }

    fn leases_of<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Vec<LeaseRecord>, Fault>> {
        Box::pin(read(self, "=", resource.as_str(), 1))
    }

    fn force_release<'a>(&'a self, lease: &'a LeaseRecord) -> BoxFuture<'a, Result<bool, Fault>> {
        let (resource, owner) = (DB::literal(lease.resource.as_str()), DB::literal(&lease.owner));
        let end = fill(DB::END_LEASE, &[("{resource}", &resource), ("{owner}", &owner), ("{token}", &lease.token)]);
        let ended = async move |conn: &mut DB::Connection| {
            let mut tx = conn.begin_with(DB::BEGIN).await?;
            let ended = DB::first(&mut tx, end).await?;
            tx.commit().await.map(|()| ended.is_some())
        };
        Box::pin(call(self, |conn| ended(conn).boxed()))
    }
}

/// Reads leases, and omits invalid rows, which are no end of the list.
async fn read<DB: Database>(pool: &Pool<DB>, after: &str, name: &str, limit: u32) -> Result<Vec<LeaseRecord>, Fault> {
    let mut name = name.as_bytes().to_vec();
    loop {
        let rows = call(pool, |conn| DB::texts(conn, list::<DB>(after, &name, limit)).boxed()).await?;
        let found: Vec<_> = parsed(&rows).collect();
        match rows.last().and_then(|last| last.bytes(0)) {
            Some(last) if found.is_empty() && last > name => name = last,
            _ => return Ok(found),
        }
    }
}

pub(super) fn list<DB: Database>(after: &str, resource: impl AsRef<[u8]>, limit: u32) -> String {
    let resource = DB::literal(resource);
    fill(DB::LEASES, &[("{after}", &after), ("{resource}", &resource), ("{limit}", &limit)])
}

pub(super) fn parsed(rows: &[TextRow]) -> impl Iterator<Item = LeaseRecord> {
    rows.iter().filter_map(record).flatten()
}

/// Runs statements on a connection. They may take as long as the pool may wait for one.
async fn call<DB: Database, T>(
    pool: &Pool<DB>,
    run: impl FnOnce(&mut DB::Connection) -> BoxFuture<'_, sqlx::Result<T>>,
) -> Result<T, Fault> {
    let conn = pool.acquire().await.map_err(fault::of_connection)?;
    // Without an answer, the pool would wait for it for ever, perhaps in a transaction.
    let mut conn = guard(conn, |mut conn| conn.close_on_drop());
    let answer = timeout(pool.options().get_acquire_timeout(), run(&mut conn)).await.map_err(|_| Fault::TimedOut)?;
    drop(ScopeGuard::into_inner(conn));
    answer.map_err(fault::of_statement)
}

/// Reads a row, which may have been altered by hand.
fn record(row: &TextRow) -> Option<Vec<LeaseRecord>> {
    let (resource, owner) = (Resource::new(String::from_utf8(row.bytes(0)?).ok()?).ok()?, row.text(2)?);
    let token = Token::try_from(row.number::<i64>(1)?).ok()?;
    let lease = |holder: &str, remaining| LeaseRecord {
        resource: resource.clone(),
        token,
        holder: Holder::read(holder),
        shared: owner == "shared",
        remaining,
        owner: owner.to_owned(),
    };
    let remaining = row.number(4).map(Duration::from_millis);
    Some(match row.text(5) {
        None => vec![lease(row.text(3)?, remaining)],
        // Each has 49 bytes: see the migration. The holder's column has the time. They end with the row at the latest.
        Some(parts) => {
            let present: u64 = row.number(3)?;
            let part = |part: &[u8]| {
                let (holder, end) = std::str::from_utf8(part).ok()?.split_at_checked(33)?;
                let left = end.parse::<u64>().ok()?.checked_sub(present).filter(|left| *left > 0)?;
                let left = Duration::from_micros(left);
                Some(lease(holder.trim_end(), Some(remaining.map_or(left, |row| left.min(row)))))
            };
            parts.as_bytes().chunks(49).filter_map(part).collect()
        }
    })
}
