//! The statements for rows that several share: each owner has a part, in `parts`, with its end.
//!
//! The time of a statement stands still, so it may be read several times.
//!
//! Several share a row only if its owner is 'shared' as well: a client that knows nothing of parts leaves
//! them there when it is granted the row alone.

/// Writes a statement: `now!()` stands for the time in milliseconds.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// Whether others share the row at this moment.
macro_rules! joins {
    () => {
        concat!(
            "(fencing_leases.owner = 'shared' AND fencing_leases.parts IS NOT NULL
                AND fencing_leases.expires_at > ",
            now!(),
            ")"
        )
    };
}

/// The parts of others that have not ended. None ends later than a grant allows: then the clock was
/// set back.
macro_rules! others {
    ($closed:literal) => {
        concat!(
            "SELECT key AS owner, min(value, ",
            now!(),
            " + ",
            $closed,
            ") AS until FROM json_each(fencing_leases.parts)
            WHERE value > ",
            now!(),
            " AND key NOT IN (?2, ?2 || '.')"
        )
    };
}

/// Reads for how many milliseconds one holds the row alone, or waits for that, as a read of a row that
/// one asks for alone does.
pub(super) const LEFT_TO_SHARE: &str = "
    SELECT CASE WHEN draining THEN draining_until
            WHEN expires_at > present + closed_for
            THEN min(coalesce(odd_since, present), present) + closed_for ELSE expires_at END - present,
        NOT draining AND CASE WHEN expires_at > present + closed_for
            THEN coalesce(odd_since > present, true) ELSE odd_since IS NOT NULL END,
        false, CASE WHEN owner <> 'shared' THEN owner END
    FROM (SELECT *, coalesce(draining_since <= present AND draining_until > present, false) AS draining
        FROM fencing_leases, (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS present)
        WHERE resource = ?1)
    WHERE draining OR (parts IS NULL OR closed_for IS NULL OR owner <> 'shared') AND expires_at > present
        AND NOT coalesce(expires_at > present + closed_for AND odd_since + closed_for <= present, false)";

/// Joins those who share the row, with its token, or is the first of them. By hand a row may be closed
/// to them: it has no `closed_for` then. Where there is a mark the floor counts for a new group alone: those who
/// share the row go on.
pub(super) const SHARE: &str = concat!(
    "
    INSERT INTO fencing_leases (resource, token, owner, expires_at, closed_for, parts)
    SELECT ?1,
        max(coalesce((SELECT token FROM fencing_marks WHERE resource = ?1), 0),
            (SELECT token FROM fencing_floor)) + 1, 'shared', ",
    now!(),
    " + ?3, ?3, json_object(?2, ",
    now!(),
    " + ?3)
    WHERE true
    ON CONFLICT (resource) DO UPDATE SET
        token = CASE WHEN ",
    joins!(),
    " AND coalesce((SELECT token FROM fencing_marks WHERE resource = ?1), excluded.token - 1)
                <= fencing_leases.token
            THEN fencing_leases.token ELSE max(fencing_leases.token + 1, excluded.token) END,
        owner = 'shared', odd_since = NULL,
        closed_for = CASE WHEN ",
    joins!(),
    " THEN max(fencing_leases.closed_for, ?3) ELSE ?3 END,
        (expires_at, parts) = (
            SELECT max(until), json_group_object(owner, until)
            FROM (",
    others!("max(coalesce(fencing_leases.closed_for, ?3), ?3)"),
    " AND ",
    joins!(),
    " UNION ALL SELECT ?2, ",
    now!(),
    " + ?3))
    WHERE NOT coalesce(fencing_leases.draining_since <= ",
    now!(),
    " AND fencing_leases.draining_until > ",
    now!(),
    ", false)
        AND (fencing_leases.owner = 'shared' AND fencing_leases.parts IS NOT NULL
                AND fencing_leases.closed_for IS NOT NULL
            OR fencing_leases.expires_at <= ",
    now!(),
    " OR fencing_leases.expires_at > ",
    now!(),
    " + fencing_leases.closed_for AND fencing_leases.odd_since + fencing_leases.closed_for <= ",
    now!(),
    ")
    RETURNING token"
);

/// Renews a part. One that was released stays released, whatever was still on its way.
pub(super) const RENEW_PART: &str = concat!(
    "
    UPDATE fencing_leases SET odd_since = NULL,
        (expires_at, closed_for, parts) = (
            SELECT max(until), max(coalesce(fencing_leases.closed_for, ?4), ?4),
                json_group_object(owner, until)
            FROM (",
    others!("max(coalesce(fencing_leases.closed_for, ?4), ?4)"),
    " UNION ALL SELECT ?2, ",
    now!(),
    " + ?4))
    WHERE resource = ?1 AND ?3 IS NOT NULL AND owner = 'shared' AND expires_at <> 0
        AND EXISTS (SELECT 1 FROM json_each(fencing_leases.parts) WHERE key = ?2)"
);

/// Releases a part. Returns whether it was the last.
pub(super) const LEAVE: &str = concat!(
    "
    UPDATE fencing_leases SET odd_since = NULL,
        (expires_at, parts) = (
            SELECT coalesce(max(until), 0), json_group_object(owner, until)
            FROM (",
    others!("coalesce(fencing_leases.closed_for, 1000000000000)"),
    "))
    WHERE resource = ?1 AND owner = 'shared' AND expires_at > ",
    now!(),
    " AND EXISTS (SELECT 1 FROM json_each(fencing_leases.parts)
            WHERE key IN (?2, ?2 || '.') AND value > ",
    now!(),
    ")
    RETURNING expires_at = 0"
);

/// Leaves a part there for the rest, under a name by which no renewal finds it.
pub(super) const SHORTEN_PART: &str = concat!(
    "
    UPDATE fencing_leases SET odd_since = NULL,
        (expires_at, parts) = (
            SELECT max(until), json_group_object(owner, until)
            FROM (",
    others!("coalesce(fencing_leases.closed_for, 1000000000000)"),
    " UNION ALL SELECT ?2 || '.', min(min(value), ",
    now!(),
    " + ?3) FROM json_each(fencing_leases.parts) WHERE key IN (?2, ?2 || '.')))
    WHERE resource = ?1 AND owner = 'shared' AND expires_at > ",
    now!(),
    " AND EXISTS (SELECT 1 FROM json_each(fencing_leases.parts)
            WHERE key IN (?2, ?2 || '.') AND value > ",
    now!(),
    ")
    RETURNING false"
);

/// Keeps others from joining, for 20 s at most. Then they may join for as long.
pub(super) const DRAIN: &str = concat!(
    "
    UPDATE fencing_leases SET draining_since = begun, draining_until = max(
            CASE WHEN draining_since = begun THEN draining_until ELSE 0 END,
            min(present + ?2, begun + 20000))
    FROM (SELECT present, CASE WHEN draining_since <= present AND draining_since > present - 40000
                THEN draining_since ELSE present END AS begun
            FROM fencing_leases, (SELECT ",
    now!(),
    " AS present) WHERE resource = ?1)
    WHERE resource = ?1 AND owner = 'shared' AND parts IS NOT NULL AND expires_at > ",
    now!()
);
