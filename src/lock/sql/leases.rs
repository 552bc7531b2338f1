//! Operator functions for leases in a database, on its pool.

use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token};
use futures_util::future::BoxFuture;
use sqlx::Pool;

use super::fault;
use crate::database::opening::open_transaction;
use crate::database::quoted::fill;
use crate::database::{Database, TextRow};
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
        Box::pin(async move {
            let conn = self.acquire().await.map_err(|error| fault::of_connection(&error))?;
            let resource = DB::literal(lease.resource.as_str());
            let owner = DB::literal(&lease.owner);
            let end = fill(DB::END_LEASE, &[("{resource}", &resource), ("{owner}", &owner), ("{token}", &lease.token)]);
            let ended = async {
                let mut tx = open_transaction(conn, DB::BEGIN.into()).await?;
                let ended = DB::first_text(&mut tx, end).await?;
                tx.commit().await.map(|()| ended.is_some())
            };
            ended.await.map_err(|error| fault::of_statement(&error))
        })
    }
}

async fn read<DB: Database>(
    pool: &Pool<DB>,
    after: &str,
    resource: &str,
    limit: u32,
) -> Result<Vec<LeaseRecord>, Fault> {
    let mut conn = pool.acquire().await.map_err(|error| fault::of_connection(&error))?;
    let resource = DB::literal(resource);
    let list = fill(DB::LEASES, &[("{after}", &after), ("{resource}", &resource), ("{limit}", &limit)]);
    let rows = DB::texts(&mut conn, list).await;
    let rows = rows.map_err(|error| fault::of_statement(&error))?;
    Ok(rows.iter().filter_map(parsed).flatten().collect())
}

/// Reads a row, which may have been altered by hand.
fn parsed(row: &TextRow) -> Option<Vec<LeaseRecord>> {
    let (resource, owner) = (Resource::new(row.text(0)?).ok()?, row.text(2)?);
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
