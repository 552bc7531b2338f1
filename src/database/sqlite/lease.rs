use fencing_protocol::Mode;
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};

use crate::database::lease::LeaseCall;
use crate::database::{LeaseClaim, LeaseStatements, TextRow};

/// The time of a statement. SQLite reads it once, after the wait for the database's one write lock.
const PRESENT: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// The parts of others that have not ended. None ends after the longest term from now: then the clock was set back.
const OTHERS: &str = "
    SELECT key, min(value, {present} + max(coalesce(closed_for, 1000000000000000), ?4)) AS value
    FROM json_each(iif(owner = 'shared', parts, NULL))
    WHERE value > {present} AND key NOT IN (?2, ?2 || '.')";

/// The row as a claim sees it: how long it is held, and whether the claim joins its shared holders. An operator may
/// close a row to shared owners as well; it has no `closed_for` then. If it is closed for longer than `closed_for`, the
/// clock was set back, and `noticed` is when that was first seen.
const DECIDED: &str = "
    WITH seen AS (
        SELECT *, owner IS 'shared' AND parts IS NOT NULL AS is_shared,
            ?3 AND owner IS 'shared' AND parts IS NOT NULL AND closed_for IS NOT NULL AS joins
        FROM (SELECT {present} AS present) LEFT JOIN main.fencing_leases ON resource = ?1
    ), timed AS (
        SELECT *, CASE WHEN joins THEN clock_anomaly_since WHEN expires_at > present + closed_for
            THEN min(coalesce(clock_anomaly_since, present), present) END AS noticed
        FROM seen
    ), decided AS (
        SELECT *, CASE
            WHEN ?3 AND draining_since <= present AND draining_until > present THEN draining_until
            WHEN joins THEN 0
            ELSE coalesce(noticed + closed_for, expires_at, 0)
        END AS closed FROM timed
    )";

/// Reads no token, how long the row is held, whether it is shared, its holder (of several, the one whose part ends
/// last), and whether the anomaly of a clock must be noted.
const LOOK: &str = "{decided}
    SELECT NULL, closed - present, is_shared,
        iif(is_shared, (SELECT key FROM json_each(parts) ORDER BY value DESC LIMIT 1), owner),
        closed > present AND noticed IS NOT clock_anomaly_since
    FROM decided";

const NOTE: &str = "{decided}
    UPDATE main.fencing_leases SET clock_anomaly_since = (SELECT noticed FROM decided) WHERE resource = ?1";

/// Grants the row, or a part of it, if it is open. A claim that joins others has their token, unless the mark is above
/// it, as after tokens from elsewhere or a lost row. The floor replaces a mark that was pruned.
const GRANT: &str = "{decided}, open AS (
        SELECT present, token, iif(joins AND expires_at > present, owner, '') AS owner, closed_for, parts,
            iif(?3, draining_since, NULL) AS draining_since, iif(?3, draining_until, NULL) AS draining_until,
            (SELECT token FROM main.fencing_marks WHERE resource = ?1) AS mark,
            coalesce((SELECT token FROM main.fencing_floor), json_extract('{}', 'fencing: fencing_floor has no row'))
                AS floor
        FROM decided WHERE closed <= present
    )
    REPLACE INTO main.fencing_leases
        (resource, token, owner, closed_for, expires_at, parts, draining_since, draining_until)
    SELECT ?1, iif(owner = 'shared' AND coalesce(mark, floor) <= token, token,
            max(coalesce(token, 0), coalesce(mark, 0), floor) + 1),
        iif(?3, 'shared', ?2), iif(owner = 'shared', max(closed_for, ?4), ?4),
        (SELECT max(value) FROM ({others} UNION ALL SELECT ?2, present + ?4)),
        iif(?3, (SELECT json_group_object(key, value) FROM ({others} UNION ALL SELECT ?2, present + ?4)), NULL),
        draining_since, draining_until
    FROM open RETURNING token";

const RENEW: &str = "
    UPDATE main.fencing_leases SET clock_anomaly_since = NULL,
        closed_for = iif(owner = 'shared', max(coalesce(closed_for, 0), ?4), ?4), (expires_at, parts) = (
            SELECT max(value), iif(owner = 'shared', json_group_object(key, value), parts)
            FROM ({others} UNION ALL SELECT ?2, {present} + ?4))
    WHERE resource = ?1 AND expires_at <> 0 AND (owner = ?2 AND token = ?3
        OR owner = 'shared' AND ?2 IN (SELECT key FROM json_each(parts)))
    RETURNING 1";

/// With a rest (`?3`) it renames the owner, so that no renewal in flight finds it and a second release changes nothing.
const RELEASE: &str = "
    UPDATE main.fencing_leases SET owner = iif(?3 > 0, ?2 || '.', owner),
        expires_at = iif(owner <> ?2, expires_at, iif(?3 > 0, min(expires_at, {present} + ?3), 0))
    WHERE resource = ?1 AND (owner = ?2 || '.'
        OR owner = ?2 AND (expires_at > {present} OR expires_at = 0))
    RETURNING iif(owner = ?2, 2, 1)";

const RELEASE_PART: &str = "
    WITH own AS (
        SELECT max(part.value) AS ends FROM main.fencing_leases, json_each(parts) AS part
        WHERE resource = ?1 AND owner = 'shared' AND part.key IN (?2, ?2 || '.')
    )
    UPDATE main.fencing_leases SET clock_anomaly_since = NULL, (expires_at, parts) = (
        SELECT coalesce(max(value), 0), json_group_object(key, value) FROM ({others}
            UNION ALL SELECT ?2 || '.', min(ends, {present} + ?3) FROM own WHERE ?3 > 0))
    WHERE resource = ?1 AND expires_at > {present} AND (SELECT ends FROM own) > {present}
    RETURNING iif(expires_at > 0, 1, 2)";

/// Keeps others from joining for 20 s at most. Then they may join for as long.
const DRAIN: &str = "
    UPDATE main.fencing_leases AS lease SET (draining_since, draining_until) = (
        SELECT since, max(min({present} + ?4, since + 20000),
            iif(since = lease.draining_since, coalesce(lease.draining_until, 0), 0))
        FROM (SELECT iif(lease.draining_since > {present} - 40000 AND lease.draining_since <= {present},
            lease.draining_since, {present}) AS since))
    WHERE resource = ?1 AND owner = 'shared' AND parts IS NOT NULL AND expires_at > {present}";

fn sql(text: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(text.replace("{decided}", DECIDED).replace("{others}", OTHERS).replace("{present}", PRESENT))
}

/// Runs a statement about the row of a claim, with a number of its own. Returns the row with which it answers, if any.
async fn run(conn: &mut SqliteConnection, text: &str, claim: &LeaseClaim, number: i64) -> sqlx::Result<TextRow> {
    let query = sqlx::query(sql(text)).bind(claim.resource.as_str()).bind(&claim.owner);
    let answer = query.bind(number).bind(claim.lasting).fetch_all(conn).await?;
    answer.first().map_or_else(|| Ok(TextRow::default()), TextRow::read)
}

/// Acquires the row. A held one is only read: there is one writer at a time.
async fn acquire(conn: &mut SqliteConnection, claim: &LeaseClaim) -> sqlx::Result<TextRow> {
    let shares = i64::from(claim.mode == Mode::Shared);
    let mut seen = run(conn, LOOK, claim, shares).await?;
    if seen.number::<i64>(1) <= Some(0) {
        let granted = run(conn, GRANT, claim, shares).await?;
        if granted.text(0).is_some() {
            return Ok(granted);
        }
        seen = run(conn, LOOK, claim, shares).await?;
    }
    if seen.is_true(4) {
        run(conn, NOTE, claim, shares).await?;
    }
    Ok(seen)
}

/// Each change is one statement, which the driver carries out to its end on a thread of its own: a client that is
/// stopped in between holds up no other.
impl LeaseStatements for Sqlite {
    const LEASES: &'static str = "
        SELECT hex(resource), token, owner, coalesce(part.key, owner),
            coalesce(part.value, expires_at) - present, NULL
        FROM (SELECT *, CAST(unixepoch('subsec') * 1000 AS INTEGER) AS present FROM main.fencing_leases
            WHERE resource {after} {resource} AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER)
            ORDER BY resource LIMIT {limit}) AS lease
        LEFT JOIN json_each(CASE WHEN owner = 'shared' THEN parts END) AS part ON part.value > present
        ORDER BY resource, 4";

    const END_LEASE: &'static str = "
        UPDATE main.fencing_leases SET expires_at = 0 WHERE resource = {resource} AND owner = {owner}
            AND token = {token} AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER);
        INSERT INTO main.fencing_audit (resource, from_token, to_token, lowered_at)
        SELECT {resource}, {token}, {token}, strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE changes() = 1 RETURNING 1";

    const PROBE: &'static str = "
        SELECT 'fencing_floor has no row' WHERE NOT EXISTS (SELECT 1 FROM main.fencing_floor)
            AND NOT EXISTS (SELECT 1 FROM main.fencing_leases AS lease, main.fencing_marks AS mark
                WHERE lease.resource = '' AND mark.resource = '' AND lease.token = 0)";

    async fn call(conn: &mut SqliteConnection, claim: &LeaseClaim, call: LeaseCall) -> sqlx::Result<TextRow> {
        match call {
            LeaseCall::Acquire => acquire(conn, claim).await,
            LeaseCall::Renew { token } => run(conn, RENEW, claim, token.into()).await,
            LeaseCall::Release { rest } => match run(conn, RELEASE, claim, rest).await? {
                row if row.text(0).is_some() => Ok(row),
                _ => run(conn, RELEASE_PART, claim, rest).await,
            },
            LeaseCall::Drain => run(conn, DRAIN, claim, 0).await,
        }
    }
}
