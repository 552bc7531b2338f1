//! The statements for rows that several share: each owner has a part, in `parts`, with its end in
//! microseconds since 1970.
//!
//! `parts` stands in the row, and not in a table of its own: an update that has waited for the row sees
//! the newest version of it, but of other tables what there was when the statement began.
//!
//! Several share a row only if its owner is 'shared' as well: a client that knows nothing of parts leaves
//! them there when it is granted the row alone.

/// Acquires a part, in one statement like the one for a row that one asks for alone, which explains the
/// rest.
///
/// `seen`: one holds the row alone, or waits for that. By hand a row may be closed to those who share as
/// well: it has no `closed_for` then.
///
/// `acquired`: who joins others has the row's token, unless the mark is above it.
pub(super) const SHARE: &str = "
    WITH own AS MATERIALIZED (
        SELECT set_config('lock_timeout', '$patience', true),
            CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
                THEN set_config('synchronous_commit', 'on', true) END
    ), here AS MATERIALIZED (
        SELECT *, coalesce(expires_at < 'infinity' AND expires_at > present + closed_for, false) AS odd,
            coalesce(draining_since <= present AND draining_until > present, false) AS draining
        FROM (SELECT *, clock_timestamp() AS present FROM fencing_leases WHERE resource = $resource)
            AS lease
    ), seen AS MATERIALIZED (
        SELECT present, CASE WHEN owner <> 'shared' THEN owner END AS holder,
            NOT draining AND CASE WHEN odd THEN coalesce(odd_since > present, true)
                ELSE odd_since IS NOT NULL END AS is_news,
            CASE WHEN draining THEN draining_until
                WHEN odd THEN least(odd_since, present) + closed_for ELSE expires_at END AS expires_at
        FROM here
        WHERE draining OR (parts IS NULL OR closed_for IS NULL OR owner <> 'shared') AND expires_at > present
            AND NOT (odd AND coalesce(odd_since + closed_for <= present, false))
    ), noticed AS (
        UPDATE fencing_leases AS lease SET odd_since = CASE
            WHEN lease.expires_at < 'infinity'
                AND lease.expires_at > clock_timestamp() + lease.closed_for
            THEN clock_timestamp() END
        FROM own, seen
        WHERE is_news AND resource = $resource AND (lease.odd_since IS NOT NULL
            OR lease.expires_at > clock_timestamp() + lease.closed_for)
    ), acquired AS (
        INSERT INTO fencing_leases AS lease (resource, token, owner, expires_at, closed_for, parts)
        SELECT $resource,
            fencing_last($resource) + 1,
            'shared', present + $lasting * interval '1 millisecond',
            $lasting * interval '1 millisecond',
            jsonb_build_object($owner, (extract(epoch FROM present) * 1000000)::bigint + $lasting * 1000::bigint)
        FROM own, (SELECT clock_timestamp() AS present OFFSET 0) AS clock
        WHERE NOT EXISTS (SELECT FROM seen)
        ON CONFLICT (resource) DO UPDATE SET
            (token, owner, expires_at, closed_for, odd_since, parts) = (
                SELECT CASE WHEN bool_and(joins) AND coalesce(
                            (SELECT token FROM fencing_highest($resource)), EXCLUDED.token - 1) <= lease.token
                        THEN lease.token ELSE greatest(lease.token + 1, EXCLUDED.token) END,
                    'shared', timestamptz 'epoch' + max(until) * interval '1 microsecond',
                    max(closed), NULL::timestamptz, jsonb_object_agg(name, until)
                FROM (
                    SELECT present, joins, closed, (extract(epoch FROM present) * 1000000)::bigint AS time,
                        (extract(epoch FROM closed) * 1000000)::bigint AS allowed
                    FROM (
                        SELECT present, joins, greatest($lasting * interval '1 millisecond',
                            CASE WHEN joins THEN lease.closed_for END) AS closed
                        FROM (SELECT clock_timestamp() AS present OFFSET 0) AS clock, LATERAL (
                            SELECT lease.owner = 'shared' AND lease.parts IS NOT NULL
                                AND lease.expires_at > present AS joins
                        ) AS those
                    ) AS here
                ) AS here, LATERAL (
                    SELECT key AS name, least(value::bigint, time + allowed) AS until
                    FROM jsonb_each_text(lease.parts)
                    WHERE joins AND value::bigint > time AND key NOT IN ($owner, $owner || '.')
                    UNION ALL SELECT $owner, time + $lasting * 1000::bigint
                ) AS part
            )
        WHERE NOT coalesce(lease.draining_since <= clock_timestamp()
                AND lease.draining_until > clock_timestamp(), false)
            AND (lease.owner = 'shared' AND lease.parts IS NOT NULL AND lease.closed_for IS NOT NULL
                OR lease.expires_at <= clock_timestamp() OR lease.expires_at < 'infinity'
                AND lease.expires_at > clock_timestamp() + lease.closed_for
                AND lease.odd_since + lease.closed_for <= clock_timestamp())
        RETURNING token
    )
    SELECT (SELECT token FROM acquired), (
        SELECT ceil(extract(epoch FROM
            least(expires_at, present + interval '1 year') - present
        ) * 1000)::bigint FROM seen
    ), false, (SELECT holder FROM seen)";

/// Renews a part. One that was released stays released, whatever was still on its way.
pub(super) const RENEW_PART: &str = "
    WITH own AS MATERIALIZED (SELECT set_config('lock_timeout', '$patience', true))
    UPDATE fencing_leases AS lease SET (expires_at, closed_for, odd_since, parts) = (
        SELECT timestamptz 'epoch' + max(until) * interval '1 microsecond',
            greatest(lease.closed_for, $lasting * interval '1 millisecond'), NULL::timestamptz,
            jsonb_object_agg(name, until)
        FROM (
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS time,
                (extract(epoch FROM greatest(lease.closed_for, $lasting * interval '1 millisecond'))
                    * 1000000)::bigint AS allowed OFFSET 0
        ) AS clock, LATERAL (
            SELECT key AS name, least(value::bigint, time + allowed) AS until
            FROM jsonb_each_text(lease.parts)
            WHERE value::bigint > time AND key <> $owner
            UNION ALL SELECT $owner, time + $lasting * 1000::bigint
        ) AS part
    ) FROM own
    WHERE resource = $resource AND owner = 'shared' AND parts ? $owner AND expires_at <> '-infinity'";

/// Releases a part. Returns whether it was the last.
pub(super) const LEAVE: &str = "
    WITH own AS MATERIALIZED (SELECT set_config('lock_timeout', '$patience', true))
    UPDATE fencing_leases AS lease SET (expires_at, odd_since, parts) = (
        SELECT coalesce(timestamptz 'epoch' + max(until) * interval '1 microsecond', '-infinity'),
            NULL::timestamptz, coalesce(jsonb_object_agg(name, until), '{}')
        FROM (
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS time,
                (extract(epoch FROM lease.closed_for) * 1000000)::bigint AS allowed OFFSET 0
        ) AS clock, LATERAL (
            SELECT key AS name, least(value::bigint, time + allowed) AS until
            FROM jsonb_each_text(lease.parts)
            WHERE value::bigint > time AND key NOT IN ($owner, $owner || '.')
        ) AS part
    ) FROM own
    WHERE resource = $resource AND owner = 'shared' AND expires_at > clock_timestamp()
        AND coalesce(parts ->> $owner, parts ->> ($owner || '.'))::bigint
            > extract(epoch FROM clock_timestamp()) * 1000000
    RETURNING expires_at = '-infinity'";

/// Leaves a part there for the rest, under a name by which no renewal finds it.
pub(super) const SHORTEN_PART: &str = "
    WITH own AS MATERIALIZED (SELECT set_config('lock_timeout', '$patience', true))
    UPDATE fencing_leases AS lease SET (expires_at, odd_since, parts) = (
        SELECT timestamptz 'epoch' + max(until) * interval '1 microsecond', NULL::timestamptz,
            jsonb_object_agg(name, until)
        FROM (
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS time,
                (extract(epoch FROM lease.closed_for) * 1000000)::bigint AS allowed OFFSET 0
        ) AS clock, LATERAL (
            SELECT key AS name, least(value::bigint, time + allowed) AS until
            FROM jsonb_each_text(lease.parts)
            WHERE value::bigint > time AND key NOT IN ($owner, $owner || '.')
            UNION ALL SELECT $owner || '.', least(time + $rest * 1000::bigint,
                coalesce(lease.parts ->> $owner, lease.parts ->> ($owner || '.'))::bigint)
        ) AS part
    ) FROM own
    WHERE resource = $resource AND owner = 'shared' AND expires_at > clock_timestamp()
        AND coalesce(parts ->> $owner, parts ->> ($owner || '.'))::bigint
            > extract(epoch FROM clock_timestamp()) * 1000000
    RETURNING false";

/// Keeps others from joining, for 20 s at most. Then they may join for as long, however many wait to hold the row
/// alone. It is a hint, and need not be on disk.
pub(super) const DRAIN: &str = "
    WITH own AS MATERIALIZED (
        SELECT set_config('lock_timeout', '$patience', true),
            set_config('synchronous_commit', 'off', true)
    )
    UPDATE fencing_leases AS lease SET draining_since = begun, draining_until = greatest(
            CASE WHEN lease.draining_since = begun THEN lease.draining_until END,
            least(clock_timestamp() + $lasting * interval '1 millisecond', begun + interval '20 s'))
    FROM own, (
        SELECT CASE WHEN draining_since <= clock_timestamp()
                AND draining_since > clock_timestamp() - interval '40 s'
            THEN draining_since ELSE clock_timestamp() END AS begun
        FROM fencing_leases WHERE resource = $resource
    ) AS run
    WHERE resource = $resource AND owner = 'shared' AND parts IS NOT NULL
        AND expires_at > clock_timestamp()";
