use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{Connection, Sqlite, SqliteConnection};

use super::BEGIN;
use crate::database::{
    AcquireAnswer, LeaseClaim, LeaseQueries, LeaseStatements, ReleaseAnswer, millis,
};

/// Reads the time and the row; one without an owner where there is none.
const READ: &str = "
    SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER), coalesce(token, 0), coalesce(owner, ''),
        coalesce(expires_at, 0), closed_for, odd_since, parts, draining_since, draining_until
    FROM (SELECT 1) LEFT JOIN main.fencing_leases ON resource = ?1";

const WRITE: &str = "
    INSERT INTO main.fencing_leases (resource, token, owner, expires_at, closed_for, odd_since, parts,
        draining_since, draining_until)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (resource) DO UPDATE SET token = ?2, owner = ?3, expires_at = ?4, closed_for = ?5,
        odd_since = ?6, parts = ?7, draining_since = ?8, draining_until = ?9";

/// Reads the mark and the floor. The mark may be above the row's token if the tokens came from elsewhere
/// before, or the row was lost. The floor replaces a mark that was pruned.
const LAST: &str = "
    SELECT (SELECT token FROM main.fencing_marks WHERE resource = ?1), token FROM main.fencing_floor";

const PROBE: &str = "
    SELECT 1 FROM main.fencing_leases AS lease, main.fencing_marks AS mark, main.fencing_floor AS floor
    WHERE lease.token = 0 AND mark.token = 0 AND floor.token < 0 LIMIT 0";

const LEASES: LeaseQueries = LeaseQueries {
    list: "
        SELECT resource, CAST(token AS TEXT), owner, coalesce(part.key, owner),
            CAST(coalesce(part.value, expires_at) - present AS TEXT), NULL
        FROM (SELECT *, CAST(unixepoch('subsec') * 1000 AS INTEGER) AS present FROM main.fencing_leases
            WHERE {which} AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER)
            ORDER BY resource LIMIT {limit}) AS lease
        LEFT JOIN json_each(CASE WHEN owner = 'shared' THEN parts END) AS part ON part.value > present
        ORDER BY resource, 4",
    after: "resource > ?1",
    one: "resource = ?1",
    lock: "SELECT owner FROM main.fencing_leases WHERE resource = ?1 AND owner = ?2
        AND token = CAST(?3 AS INTEGER) AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    end: "UPDATE main.fencing_leases SET expires_at = 0
        WHERE resource = ?1 AND owner = ?2 AND token = CAST(?3 AS INTEGER)",
    audit: "INSERT INTO main.fencing_audit (resource, from_token, to_token, lowered_at)
        VALUES (?1, CAST(?2 AS INTEGER), CAST(?2 AS INTEGER), strftime('%Y-%m-%d %H:%M:%f', 'now'))",
};

/// The owner of a row that has parts.
const SHARED: &str = "shared";

/// The longest drain, and the shortest time from the start of one to the next, in milliseconds.
const DRAIN: (i64, i64) = (20_000, 40_000);

/// The ends of the leases that share a row, by owner.
type Parts = BTreeMap<String, i64>;

/// What a new token must be above: the mark, if there is one, and the floor.
type Last = (Option<i64>, i64);

/// A row of the table, in milliseconds since 1970; the migration says what each column means.
///
/// An exclusive lease is a part held alone: one row has either an owner, or parts and the owner `shared`. (A
/// client of an older version leaves parts there when it is granted the row alone.)
#[derive(Clone, PartialEq)]
struct LeaseRow {
    token: i64,
    owner: String,
    expires_at: i64,
    closed_for: Option<i64>,
    odd_since: Option<i64>,
    parts: Option<Parts>,
    draining: Option<(i64, i64)>,
}

impl LeaseRow {
    fn shared_parts(&self) -> Option<&Parts> {
        self.parts.as_ref().filter(|_| self.owner == SHARED)
    }

    /// Whether a shared claim joins others. By hand a row may be closed to it: it has no `closed_for` then.
    fn can_be_joined(&self) -> bool {
        self.shared_parts().is_some() && self.closed_for.is_some()
    }

    /// Returns the answer if the row is closed to this claim. If it is closed for longer than a grant allows,
    /// the clock was set back, and the time counts from the moment when that was noticed.
    fn refuse(&mut self, claim: &LeaseClaim, present: i64) -> Option<AcquireAnswer> {
        let joins = claim.shared && self.can_be_joined();
        let odd = self
            .closed_for
            .filter(|term| !joins && self.expires_at > present.saturating_add(*term));
        let noticed = match joins {
            true => self.odd_since,
            false => odd.map(|_| self.odd_since.map_or(present, |since| since.min(present))),
        };
        let until = match self.draining {
            Some((since, until)) if claim.shared && since <= present && until > present => until,
            _ if joins => 0,
            _ => {
                noticed.zip(odd).map_or(self.expires_at, |(since, term)| since.saturating_add(term))
            }
        };
        if until <= present {
            return None;
        }
        self.odd_since = noticed;
        let shared = self.shared_parts();
        let longest = shared.and_then(|parts| parts.iter().max_by_key(|(_, end)| **end));
        let holder = shared.map_or(Some(&self.owner), |_| longest.map(|(owner, _)| owner)).cloned();
        let shared = shared.is_some() && !claim.shared;
        Some(AcquireAnswer::Held { left: until - present, shared, holder })
    }

    /// Returns the parts of others that have not ended. None ends later than `longest` from now: then the
    /// clock was set back.
    fn others(&self, owner: &str, present: i64, longest: i64) -> Parts {
        let parts = self.shared_parts().into_iter().flatten();
        let others = parts.filter(|(name, end)| {
            **end > present && name.strip_suffix('.').unwrap_or(name) != owner
        });
        others
            .map(|(name, end)| (name.clone(), (*end).min(present.saturating_add(longest))))
            .collect()
    }

    /// Replaces the parts. The row expires with the last of them.
    fn share(&mut self, parts: Parts) {
        self.expires_at = parts.values().copied().max().unwrap_or(0);
        self.odd_since = None;
        self.parts = Some(parts);
    }

    /// Grants the row, or a part of it. A claim that joins others has their token, unless the mark is above it.
    fn grant(&mut self, claim: &LeaseClaim, present: i64, (mark, floor): Last) -> AcquireAnswer {
        let (owner, end) = (&claim.owner, present.saturating_add(claim.lasting));
        let joins = claim.shared && self.can_be_joined() && self.expires_at > present;
        if !joins || mark.unwrap_or(floor) > self.token {
            self.token = self.token.max(mark.unwrap_or(0)).max(floor) + 1;
        }
        let longest = self.closed_for.filter(|_| joins).unwrap_or(0).max(claim.lasting);
        self.closed_for = Some(longest);
        if claim.shared {
            let mut parts =
                if joins { self.others(owner, present, longest) } else { Parts::default() };
            parts.insert(owner.clone(), end);
            SHARED.clone_into(&mut self.owner);
            self.share(parts);
        } else {
            owner.clone_into(&mut self.owner);
            (self.expires_at, self.odd_since) = (end, None);
            (self.parts, self.draining) = (None, None);
        }
        AcquireAnswer::Granted(self.token)
    }

    /// Renews the lease, unless it is over.
    fn renew(&mut self, claim: &LeaseClaim, token: i64, present: i64) -> bool {
        let end = present.saturating_add(claim.lasting);
        if self.expires_at == 0 {
            return false;
        }
        if self.owner == claim.owner && self.token == token {
            (self.expires_at, self.closed_for, self.odd_since) = (end, Some(claim.lasting), None);
            return true;
        }
        let has_part = self.shared_parts().is_some_and(|parts| parts.contains_key(&claim.owner));
        if has_part {
            let longest = self.closed_for.unwrap_or(0).max(claim.lasting);
            let mut parts = self.others(&claim.owner, present, longest);
            parts.insert(claim.owner.clone(), end);
            self.closed_for = Some(longest);
            self.share(parts);
        }
        has_part
    }

    /// Releases the lease. For the rest it gets a name by which no renewal that is still on its way finds it.
    fn release(&mut self, owner: &str, rest: i64, present: i64) -> ReleaseAnswer {
        let resting = format!("{owner}.");
        let answer = if rest > 0 { ReleaseAnswer::Left } else { ReleaseAnswer::Freed };
        let is_own = self.owner == owner && (self.expires_at > present || self.expires_at == 0);
        if is_own || self.owner == resting {
            let rests = rest > 0;
            self.expires_at =
                if rests { self.expires_at.min(present.saturating_add(rest)) } else { 0 };
            self.owner = if rests { resting } else { owner.to_owned() };
            return answer;
        }
        let own_end = self.shared_parts().and_then(|parts| {
            parts.get(owner).or_else(|| parts.get(&resting)).copied().filter(|end| *end > present)
        });
        let Some(own_end) = own_end.filter(|_| self.expires_at > present) else {
            return ReleaseAnswer::Lapsed;
        };
        let longest = self.closed_for.unwrap_or(i64::MAX);
        let mut parts = self.others(owner, present, longest);
        if rest > 0 {
            parts.insert(resting, own_end.min(present.saturating_add(rest)));
        }
        let answer = if parts.is_empty() { ReleaseAnswer::Freed } else { ReleaseAnswer::Left };
        self.share(parts);
        answer
    }

    /// Keeps others from joining for a while. Then they may join for as long.
    fn drain(&mut self, lasting: i64, present: i64) {
        if self.shared_parts().is_none() || self.expires_at <= present {
            return;
        }
        let runs = |(since, _): &(i64, i64)| *since <= present && *since > present - DRAIN.1;
        let (since, until) = self.draining.filter(runs).unwrap_or((present, 0));
        self.draining =
            Some((since, until.max(present.saturating_add(lasting).min(since + DRAIN.0))));
    }
}

async fn read(conn: &mut SqliteConnection, claim: &LeaseClaim) -> sqlx::Result<(i64, LeaseRow)> {
    type Nullable = Option<i64>;
    let row = sqlx::query_as(READ).bind(claim.resource.as_str()).fetch_one(conn).await?;
    let (present, token, owner, expires_at, closed_for, odd_since, parts, since, until): (
        i64,
        i64,
        String,
        i64,
        Nullable,
        Nullable,
        Option<String>,
        Nullable,
        Nullable,
    ) = row;
    let parts = parts.map(|parts| serde_json::from_str(&parts)).transpose();
    let parts = parts.map_err(|error| sqlx::Error::Decode(error.into()))?;
    let draining = since.zip(until);
    let row = LeaseRow { token, owner, expires_at, closed_for, odd_since, parts, draining };
    Ok((present, row))
}

/// Decides under the database's one write lock, by the row as it is then. The time is read after the wait.
async fn change<T>(
    conn: &mut SqliteConnection,
    claim: &LeaseClaim,
    decide: impl FnOnce(&mut LeaseRow, i64, Last) -> T,
) -> sqlx::Result<T> {
    let mut tx = conn.begin_with(BEGIN).await?;
    let last = sqlx::query_as(LAST).bind(claim.resource.as_str()).fetch_one(&mut *tx).await?;
    let (present, before) = read(&mut tx, claim).await?;
    let mut row = before.clone();
    let answer = decide(&mut row, present, last);
    if row != before {
        let parts = row.parts.as_ref().map(serde_json::to_string).transpose();
        let parts = parts.map_err(|error| sqlx::Error::Encode(error.into()))?;
        let (since, until) = row.draining.unzip();
        let write = sqlx::query(WRITE).bind(claim.resource.as_str()).bind(row.token);
        let write = write.bind(row.owner).bind(row.expires_at).bind(row.closed_for);
        let write = write.bind(row.odd_since).bind(parts).bind(since).bind(until);
        write.execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(answer)
}

impl LeaseStatements for Sqlite {
    const LEASES: LeaseQueries = LEASES;

    fn acquire<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a LeaseClaim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            // A row that is closed is only read: there is one writer at a time.
            let (present, mut row) = read(conn, claim).await?;
            let noted = row.odd_since;
            if let Some(answer) = row.refuse(claim, present).filter(|_| row.odd_since == noted) {
                return Ok(answer);
            }
            let decide = |row: &mut LeaseRow, present, last| {
                row.refuse(claim, present).unwrap_or_else(|| row.grant(claim, present, last))
            };
            change(conn, claim, decide).await
        })
    }

    fn renew<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a LeaseClaim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(change(conn, claim, move |row, present, _| row.renew(claim, token, present)))
    }

    fn release<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a LeaseClaim,
        rest: Duration,
    ) -> BoxFuture<'a, sqlx::Result<ReleaseAnswer>> {
        let rest = millis(rest);
        Box::pin(change(conn, claim, move |row, present, _| {
            row.release(&claim.owner, rest, present)
        }))
    }

    fn drain<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a LeaseClaim,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(change(conn, claim, |row, present, _| row.drain(claim.lasting, present)))
    }

    fn probe(conn: &mut SqliteConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
