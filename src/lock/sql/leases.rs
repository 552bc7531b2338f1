//! Operator functions for leases in a database: list them, and end one.

use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token};
use sqlx::Pool;

use super::fault;
use crate::database::opening::open_transaction;
use crate::database::quoted::fill;
use crate::database::{Database, TextRow};
use crate::holder::Holder;

/// A current lease in the database, for operators. A row that several share is listed once for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlLease {
    /// The resource.
    pub resource: Resource,
    /// The token of the lease.
    pub token: Token,
    /// The holder, if its name can be read.
    pub holder: Option<Holder>,
    /// Whether the lease is shared.
    pub shared: bool,
    /// The time until it ends unless it is renewed. `None` for a row that is held by hand for ever.
    pub remaining: Option<Duration>,
    /// The owner in the row.
    owner: String,
}

/// Reads the current leases of up to `limit` resources after `after`, ordered by the bytes of their names. For
/// operators: start with `None` and continue with the last resource.
///
/// # Errors
/// [`Fault`]: why the database did not answer.
///
/// # Cancel safety
/// It changes nothing.
pub async fn leases<DB: Database>(
    pool: &Pool<DB>,
    after: Option<&Resource>,
    limit: u32,
) -> Result<Vec<SqlLease>, Fault> {
    let after = after.map_or("", Resource::as_str);
    read(pool, ">", after, limit).await
}

/// Reads the leases of one resource: none, one, or those that share it.
///
/// # Errors
/// As for [`leases`].
///
/// # Cancel safety
/// It changes nothing.
pub async fn lease_of<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
) -> Result<Vec<SqlLease>, Fault> {
    read(pool, "=", resource.as_str(), 1).await
}

/// Ends a lease by force, if it is still the one that was seen. If several share the row, it ends all of their
/// leases, also those that have joined since. A later lease stays. Returns whether it was ended.
///
/// In the same transaction it adds a line to the table `fencing_audit`, in which both tokens are that of
/// the lease: with the rights of docs/sql.md only the owner of the tables may write there.
///
/// **Fencing.** It does not stop the holder, which continues until its lease ends, because its renewals fail
/// from now on. Only a storage that compares tokens refuses its writes, once it has seen a newer one.
///
/// # Errors
/// [`Fault`]: the database's error. If the connection broke, the lease may have been ended.
///
/// # Cancel safety
/// Dropped, the lease was ended and the line written, or neither.
pub async fn force_release<DB: Database>(pool: &Pool<DB>, lease: &SqlLease) -> Result<bool, Fault> {
    let conn = pool.acquire().await.map_err(|error| fault::of_connection(&error))?;
    let resource = DB::DIALECT.literal(lease.resource.as_str());
    let owner = DB::DIALECT.literal(&lease.owner);
    let end = fill(
        DB::END_LEASE,
        &[("{resource}", &resource), ("{owner}", &owner), ("{token}", &lease.token)],
    );
    let ended = async {
        let mut tx = open_transaction(conn, DB::BEGIN.into()).await?;
        let ended = DB::first_text(&mut tx, end).await?;
        tx.commit().await.map(|()| ended.is_some())
    };
    ended.await.map_err(|error| fault::of_statement(&error))
}

async fn read<DB: Database>(
    pool: &Pool<DB>,
    after: &str,
    resource: &str,
    limit: u32,
) -> Result<Vec<SqlLease>, Fault> {
    let mut conn = pool.acquire().await.map_err(|error| fault::of_connection(&error))?;
    let resource = DB::DIALECT.literal(resource);
    let list =
        fill(DB::LEASES, &[("{after}", &after), ("{resource}", &resource), ("{limit}", &limit)]);
    let rows = DB::texts(&mut conn, list).await;
    let rows = rows.map_err(|error| fault::of_statement(&error))?;
    Ok(rows.iter().filter_map(parsed).flatten().collect())
}

/// Reads a row, which may have been altered by hand.
fn parsed(row: &TextRow) -> Option<Vec<SqlLease>> {
    let (resource, owner) = (Resource::new(row.text(0)?).ok()?, row.text(2)?);
    let token = Token::try_from(row.number::<i64>(1)?).ok()?;
    let lease = |holder: &str, remaining| SqlLease {
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
                let left =
                    end.parse::<u64>().ok()?.checked_sub(present).filter(|left| *left > 0)?;
                let left = Duration::from_micros(left);
                Some(lease(holder.trim_end(), Some(remaining.map_or(left, |row| left.min(row)))))
            };
            parts.as_bytes().chunks(49).filter_map(part).collect()
        }
    })
}
