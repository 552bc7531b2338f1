//! What operators read of the leases in a database, and how they end one.

use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token};
use sqlx::Pool;

use super::fault;
use crate::database::{Database, Kind, Texts};
use crate::holder::Holder;

/// A lease that lasts, as it stands in the database, for an operator. A row that several share stands here once
/// for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlLease {
    /// What is locked.
    pub resource: Resource,
    /// The token of the lease.
    pub token: Token,
    /// Who holds it, if that can be read.
    pub holder: Option<Holder>,
    /// Whether the holder shares the row, perhaps with others.
    pub shared: bool,
    /// How long until it ends by itself, unless it is renewed. `None` for a row that was closed by hand and never
    /// opens.
    pub remaining: Option<Duration>,
    /// What stands in the row as its owner.
    owner: String,
}

/// The texts of one database. Columns: resource, token, the row's owner, the holder, milliseconds, and the
/// parts where they have to be taken apart here: then the holder is the time in microseconds.
struct Words {
    leases: &'static str,
    after: &'static str,
    one: &'static str,
    seen: &'static str,
    take: &'static str,
    note: &'static str,
}

const POSTGRES: Words = Words {
    leases: "
        SELECT resource, token::text, owner, coalesce(part.key, owner),
            CASE WHEN expires_at < 'infinity' THEN greatest(0, coalesce(part.value::bigint / 1000
                - extract(epoch FROM present) * 1000, extract(epoch FROM expires_at - present) * 1000))::bigint::text
            END, NULL
        FROM (SELECT *, clock_timestamp() AS present FROM fencing_leases
            WHERE {which} AND expires_at > clock_timestamp() ORDER BY resource LIMIT {limit}) AS lease
        LEFT JOIN LATERAL jsonb_each_text(CASE WHEN owner = 'shared' THEN parts END) AS part
            ON part.value::bigint / 1000 > extract(epoch FROM present) * 1000
        ORDER BY resource, 4",
    after: "resource > $1",
    one: "resource = $1",
    seen: "SELECT owner FROM fencing_leases WHERE resource = $1 AND owner = $2 AND token = $3::bigint
        AND expires_at > clock_timestamp() FOR UPDATE",
    take: "UPDATE fencing_leases SET expires_at = '-infinity'
        WHERE resource = $1 AND owner = $2 AND token = $3::bigint",
    note: "INSERT INTO fencing_audit (resource, from_token, to_token, lowered_at)
        VALUES ($1, $2::bigint, $2::bigint, clock_timestamp())",
};

const MYSQL: Words = Words {
    leases: "
        SELECT CONVERT(resource USING utf8mb4), CAST(token AS CHAR), CONVERT(owner USING utf8mb4),
            IF(owner = 'shared' AND parts IS NOT NULL,
                CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR), CONVERT(owner USING utf8mb4)),
            CAST(GREATEST(0, expires_at
                - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) DIV 1000 AS CHAR),
            IF(owner = 'shared', CONVERT(parts USING utf8mb4), NULL)
        FROM fencing_leases
        WHERE {which} AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
        ORDER BY resource LIMIT {limit}",
    after: "resource > CAST(? AS BINARY)",
    one: "resource = CAST(? AS BINARY)",
    seen: "SELECT CONVERT(owner USING utf8mb4) FROM fencing_leases
        WHERE resource = CAST(? AS BINARY) AND owner = CAST(? AS BINARY) AND token = CAST(? AS SIGNED)
        AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FOR UPDATE",
    take: "UPDATE fencing_leases SET expires_at = 0
        WHERE resource = CAST(? AS BINARY) AND owner = CAST(? AS BINARY) AND token = CAST(? AS SIGNED)",
    note: "INSERT INTO fencing_audit (resource, from_token, to_token, lowered_by, lowered_at)
        SELECT CAST(? AS BINARY), token, token, USER(), UTC_TIMESTAMP(6)
        FROM (SELECT CAST(? AS SIGNED) AS token) AS lease",
};

const SQLITE: Words = Words {
    leases: "
        SELECT resource, CAST(token AS TEXT), owner, coalesce(part.key, owner),
            CAST(coalesce(part.value, expires_at) - present AS TEXT), NULL
        FROM (SELECT *, CAST(unixepoch('subsec') * 1000 AS INTEGER) AS present FROM fencing_leases
            WHERE {which} AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER)
            ORDER BY resource LIMIT {limit}) AS lease
        LEFT JOIN json_each(CASE WHEN owner = 'shared' THEN parts END) AS part ON part.value > present
        ORDER BY resource, 4",
    after: "resource > ?1",
    one: "resource = ?1",
    seen: "SELECT owner FROM fencing_leases WHERE resource = ?1 AND owner = ?2
        AND token = CAST(?3 AS INTEGER) AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    take: "UPDATE fencing_leases SET expires_at = 0
        WHERE resource = ?1 AND owner = ?2 AND token = CAST(?3 AS INTEGER)",
    note: "INSERT INTO fencing_audit (resource, from_token, to_token, lowered_at)
        VALUES (?1, CAST(?2 AS INTEGER), CAST(?2 AS INTEGER), strftime('%Y-%m-%d %H:%M:%f', 'now'))",
};

fn words<DB: Database>() -> &'static Words {
    match DB::KIND {
        Kind::Postgres => &POSTGRES,
        Kind::MySql => &MYSQL,
        Kind::Sqlite => &SQLITE,
    }
}

/// Reads the leases that last, of the resources whose names come after `after`, up to `limit` rows of them,
/// ordered by the bytes of their names. For operators: start with `None` and go on with the last resource.
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
    read(pool, words::<DB>().after, after, limit).await
}

/// Reads who holds the lease of one resource, and who shares it. Empty if nobody does.
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
    read(pool, words::<DB>().one, resource.as_str(), 1).await
}

/// Ends a lease by force, if it is still the one that was seen. If several share the row, it ends all of their
/// leases, also those of others who have joined since. A later lease stays. Returns whether it was ended.
///
/// It leaves a line in the table `fencing_audit`, in the same transaction, in which both tokens are that of
/// the lease: with the rights of docs/sql.md only the owner of the tables may write there.
///
/// **Fencing.** It stops nobody. The holder goes on until its lease ends, as its renewals fail from now on.
/// Only a storage that compares tokens refuses its writes, once it has seen a newer one.
///
/// # Errors
/// [`Fault`]: what the database said. If the connection broke, it may have been done.
///
/// # Cancel safety
/// Dropped, the lease was ended and the line written, or neither.
pub async fn force_release<DB: Database>(pool: &Pool<DB>, lease: &SqlLease) -> Result<bool, Fault> {
    let mut conn = pool.acquire().await.map_err(|error| fault::of_connection(&error))?;
    // Dropped in the middle, the transaction ends with the connection.
    conn.close_on_drop();
    force::<DB>(&mut conn, lease).await.map_err(|error| fault::of_statement(&error))
}

async fn force<DB: Database>(conn: &mut DB::Connection, lease: &SqlLease) -> sqlx::Result<bool> {
    let words = words::<DB>();
    let (resource, token) = (lease.resource.to_string(), lease.token.to_string());
    let seen = || vec![Some(resource.clone()), Some(lease.owner.clone()), Some(token.clone())];
    DB::execute(conn, DB::BEGIN.into()).await?;
    if DB::texts(conn, words.seen.into(), seen()).await?.is_empty() {
        DB::execute(conn, "ROLLBACK".into()).await?;
        return Ok(false);
    }
    DB::texts(conn, words.take.into(), seen()).await?;
    DB::texts(conn, words.note.into(), vec![Some(resource.clone()), Some(token.clone())]).await?;
    DB::execute(conn, "COMMIT".into()).await?;
    Ok(true)
}

async fn read<DB: Database>(
    pool: &Pool<DB>,
    which: &str,
    name: &str,
    limit: u32,
) -> Result<Vec<SqlLease>, Fault> {
    let mut conn = pool.acquire().await.map_err(|error| fault::of_connection(&error))?;
    let sql = words::<DB>().leases.replace("{which}", which).replace("{limit}", &limit.to_string());
    let rows = DB::texts(&mut conn, sql, vec![Some(name.to_owned())]).await;
    let rows = rows.map_err(|error| fault::of_statement(&error))?;
    Ok(rows.iter().filter_map(parsed).flatten().collect())
}

/// Reads a row. By hand anything may have been written there.
fn parsed(row: &Texts) -> Option<Vec<SqlLease>> {
    let [resource, token, owner, holder, left, parts] = row.as_slice() else { return None };
    let (resource, owner) = (Resource::new(resource.as_deref()?).ok()?, owner.clone()?);
    let token = Token::try_from(token.as_deref()?.parse::<i64>().ok()?).ok()?;
    let millis = |left: &str| left.parse().ok().map(Duration::from_millis);
    let lease = |holder: &str, remaining| SqlLease {
        resource: resource.clone(),
        token,
        holder: Holder::read(holder),
        shared: owner == "shared",
        remaining,
        owner: owner.clone(),
    };
    let remaining = left.as_deref().and_then(millis);
    Some(match parts {
        None => vec![lease(holder.as_deref()?, remaining)],
        // Each has 49 bytes: see the migration. In the place of the holder stands the time. They end with the row
        // at the latest.
        Some(parts) => {
            let present: u64 = holder.as_deref()?.parse().ok()?;
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
