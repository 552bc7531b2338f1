-- The leases of SqlLock: for each resource the last one granted, and when it expires by
-- this database's clock; '-infinity' is released.
-- `closed_for` is how long a grant or a renewal may close the row. If the clock was set back, the
-- row seems to be closed for longer: `clock_anomaly_since` is when that was first noticed, and `closed_for` counts from
-- then. A renewal corrects the row.
-- `parts`: several share the lock. Each owner has a part, with the microsecond since 1970 at which it
-- ends; the row expires with the last of them. NULL: the last lease was exclusive. From
-- `draining_since` until `draining_until` nobody joins them, because an exclusive client waits for all of them to leave.
-- Never delete a row: the tokens of its resource would start again at 1, or at its mark,
-- and a stale writer that has not yet reached the storage would pass. A row takes about 150 bytes. If you
-- have millions, you may delete those of resources that will never be locked again and have no write on its way.
-- To free the lease of a holder that hangs: SET expires_at = '-infinity'.
-- "C" compares bytes: no two names count as one, and no update of the system's locale data
-- breaks the index.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner text NOT NULL,
    expires_at timestamptz NOT NULL,
    closed_for interval,
    clock_anomaly_since timestamptz,
    parts jsonb,
    draining_since timestamptz,
    draining_until timestamptz
);

-- The functions of SqlLock. Each is called in a transaction of its own, locks the row, reads the clock, and decides by
-- the row as it is then. `lasting` and `rest` are in milliseconds.
--
-- An exclusive lease is a part held alone: one row has either an owner, or `parts` and the owner 'shared'.

-- fencing_lease_parts(parts, owner, sign, own end, present, latest): the parts of others that have not ended, and that of
-- the owner, which gets another with this sign and end, unless its end is NULL. None of the others ends after the latest
-- end: then the clock was set back.
CREATE OR REPLACE FUNCTION fencing_lease_parts(the_parts jsonb, the_owner text, sign text, own_end timestamptz,
    present timestamptz, latest timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $fencing$
    SELECT coalesce(jsonb_object_agg(name, (extract(epoch FROM ends) * 1000000)::bigint), '{}') FROM (
        SELECT key, least(timestamptz 'epoch' + value::bigint * interval '1 microsecond', latest)
        FROM jsonb_each_text(the_parts)
        WHERE value::bigint > extract(epoch FROM present) * 1000000 AND key NOT IN (the_owner, the_owner || '.')
        UNION ALL SELECT the_owner || sign, own_end WHERE own_end IS NOT NULL
    ) AS part (name, ends)
$fencing$;

-- fencing_lease_end(parts): when the last part ends.
CREATE OR REPLACE FUNCTION fencing_lease_end(the_parts jsonb) RETURNS timestamptz LANGUAGE sql STABLE AS $fencing$
    SELECT timestamptz 'epoch' + max(value::bigint) * interval '1 microsecond' FROM jsonb_each_text(the_parts)
$fencing$;

-- fencing_lease_acquire(resource, owner, shares, lasting): returns the token if the row is free, or if the claim may
-- join those who share it; or for how many milliseconds it is closed, whether others share it, and its holder: of
-- several, the one whose part ends last.
--
-- A row that is closed is only read, without a wait for its lock, unless the anomaly of a clock must be noted.
--
-- The token is above the row's last one, the mark and the floor: the tokens may have come from elsewhere before, or the
-- row was lost, or its mark was pruned. Those who join have the row's token, unless the mark is above it.
--
-- A grant is on disk before it is answered: a crash must not grant its token again.
CREATE OR REPLACE FUNCTION fencing_lease_acquire(the_resource text, the_owner text, shares boolean, lasting bigint)
    RETURNS TABLE (granted bigint, remaining bigint, is_shared boolean, holder text)
    LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    term interval := lasting * interval '1 millisecond';
    own_end timestamptz;
    lease record;
    last bigint;
    present timestamptz;
    closed timestamptz;
    noticed timestamptz;
    joins boolean;
    held jsonb;
BEGIN
    FOR locks IN 0..1 LOOP
        IF locks = 0 THEN
            SELECT * INTO lease FROM fencing_leases WHERE resource = the_resource;
        ELSE
            last := fencing_last(the_resource);
            IF lease.resource IS NULL THEN
                INSERT INTO fencing_leases (resource, token, owner, expires_at)
                VALUES (the_resource, last + 1, the_owner, '-infinity') ON CONFLICT DO NOTHING;
            END IF;
            SELECT * INTO lease FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
        END IF;
        present := clock_timestamp();
        is_shared := coalesce(lease.owner = 'shared' AND lease.parts IS NOT NULL, false);
        -- By hand a row may be closed to those who share as well: it has no `closed_for` then.
        joins := shares AND is_shared AND lease.closed_for IS NOT NULL;
        -- By hand a row may be closed until infinity: then no clock was set back.
        noticed := CASE WHEN joins THEN lease.clock_anomaly_since WHEN lease.expires_at < 'infinity'
            AND lease.expires_at > present + lease.closed_for THEN least(lease.clock_anomaly_since, present) END;
        closed := CASE
            WHEN shares AND lease.draining_since <= present AND lease.draining_until > present
                THEN lease.draining_until
            WHEN joins THEN '-infinity'
            ELSE coalesce(noticed + lease.closed_for, lease.expires_at)
        END;
        EXIT WHEN closed > present AND noticed IS NOT DISTINCT FROM lease.clock_anomaly_since;
    END LOOP;
    IF closed > present THEN
        IF noticed IS DISTINCT FROM lease.clock_anomaly_since THEN
            UPDATE fencing_leases SET clock_anomaly_since = noticed WHERE resource = the_resource;
        END IF;
        remaining := ceil(extract(epoch FROM least(closed, present + interval '1 year') - present) * 1000);
        holder := CASE WHEN is_shared
            THEN (SELECT key FROM jsonb_each_text(lease.parts) ORDER BY value::bigint DESC LIMIT 1)
            ELSE lease.owner END;
        RETURN NEXT;
        RETURN;
    END IF;
    joins := joins AND lease.expires_at > present;
    granted := CASE
        WHEN lease.owner = the_owner AND lease.closed_for IS NULL THEN lease.token
        WHEN joins AND coalesce((SELECT token FROM fencing_highest(the_resource)), last) <= lease.token
            THEN lease.token
        ELSE greatest(lease.token, last) + 1
    END;
    own_end := present + term;
    IF joins THEN
        term := greatest(lease.closed_for, term);
    END IF;
    IF shares THEN
        held := fencing_lease_parts(CASE WHEN joins THEN lease.parts END, the_owner, '', own_end, present, present + term);
    END IF;
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    UPDATE fencing_leases SET token = granted, owner = CASE WHEN shares THEN 'shared' ELSE the_owner END,
        expires_at = coalesce(fencing_lease_end(held), present + term), closed_for = term, clock_anomaly_since = NULL,
        parts = held, draining_since = CASE WHEN shares THEN draining_since END,
        draining_until = CASE WHEN shares THEN draining_until END
    WHERE resource = the_resource;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fencing: the row of the lease was deleted meanwhile' USING ERRCODE = '40001';
    END IF;
    RETURN NEXT;
END
$fencing$;

-- fencing_lease_renew(resource, owner, token, lasting): closes the row, or keeps the part, for as long from now on.
-- Returns whether the lease is not over. One that was released stays released, whatever was still on its way.
CREATE OR REPLACE FUNCTION fencing_lease_renew(the_resource text, the_owner text, the_token bigint, lasting bigint)
    RETURNS boolean LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    term interval := lasting * interval '1 millisecond';
    longest interval;
    lease record;
    present timestamptz;
    held jsonb;
BEGIN
    SELECT * INTO lease FROM fencing_leases WHERE resource = the_resource AND expires_at <> '-infinity'
        AND (owner = the_owner AND token = the_token OR owner = 'shared' AND parts ? the_owner) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    present := clock_timestamp();
    IF lease.owner = 'shared' THEN
        longest := greatest(lease.closed_for, term);
        held := fencing_lease_parts(lease.parts, the_owner, '', present + term, present, present + longest);
    END IF;
    UPDATE fencing_leases SET expires_at = coalesce(fencing_lease_end(held), present + term),
        closed_for = coalesce(longest, term), clock_anomaly_since = NULL, parts = held
    WHERE resource = the_resource;
    RETURN true;
END
$fencing$;

-- fencing_lease_release(resource, owner, rest): frees the row, or takes the part off. What is released early stays
-- closed for the rest, under a name by which no renewal that is still on its way finds it, and a second release of the
-- row changes nothing. Returns 2 if the row is free now, 1 if it is closed still, by others or for the rest, or was
-- released early before, and 0 if the lease was over. It need not be on disk: after a crash the row is closed until the
-- lease would have ended, and nobody renews it.
CREATE OR REPLACE FUNCTION fencing_lease_release(the_resource text, the_owner text, rest bigint)
    RETURNS integer LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    names text[] := ARRAY[the_owner, the_owner || '.'];
    lease record;
    present timestamptz;
    own_end timestamptz;
    held jsonb;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO lease FROM fencing_leases WHERE resource = the_resource
        AND (owner = ANY (names) OR owner = 'shared' AND parts ?| names) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    present := clock_timestamp();
    IF lease.owner <> 'shared' THEN
        IF lease.owner <> the_owner THEN
            RETURN 1;
        ELSIF lease.expires_at <= present AND lease.expires_at <> '-infinity' THEN
            RETURN 0;
        END IF;
        UPDATE fencing_leases SET owner = names[CASE WHEN rest > 0 THEN 2 ELSE 1 END],
            expires_at = CASE WHEN rest > 0 THEN least(expires_at, present + rest * interval '1 millisecond')
                ELSE '-infinity' END
        WHERE resource = the_resource;
        RETURN CASE WHEN rest > 0 THEN 1 ELSE 2 END;
    END IF;
    SELECT fencing_lease_end(jsonb_object_agg(key, value)) INTO own_end
    FROM jsonb_each(lease.parts) WHERE key = ANY (names);
    IF own_end <= present OR lease.expires_at <= present THEN
        RETURN 0;
    END IF;
    held := fencing_lease_parts(lease.parts, the_owner, '.',
        CASE WHEN rest > 0 THEN least(own_end, present + rest * interval '1 millisecond') END,
        present, present + lease.closed_for);
    UPDATE fencing_leases SET expires_at = coalesce(fencing_lease_end(held), '-infinity'), clock_anomaly_since = NULL, parts = held
    WHERE resource = the_resource;
    RETURN CASE WHEN held = '{}' THEN 2 ELSE 1 END;
END
$fencing$;

-- fencing_lease_drain(resource, lasting): keeps others from joining those who share the row, for 20 s at most. Then
-- they may join for as long, however many wait to hold it alone. It is a hint, and need not be on disk.
CREATE OR REPLACE FUNCTION fencing_lease_drain(the_resource text, lasting bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    lease record;
    present timestamptz;
    begun timestamptz;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO lease FROM fencing_leases
    WHERE resource = the_resource AND owner = 'shared' AND parts IS NOT NULL FOR UPDATE;
    present := clock_timestamp();
    IF lease.expires_at > present THEN
        begun := CASE WHEN lease.draining_since <= present AND lease.draining_since > present - interval '40 s'
            THEN lease.draining_since ELSE present END;
        UPDATE fencing_leases SET draining_since = begun, draining_until = greatest(
            CASE WHEN begun = draining_since THEN draining_until END,
            least(present + lasting * interval '1 millisecond', begun + interval '20 s'))
        WHERE resource = the_resource;
    END IF;
END
$fencing$;

SELECT fencing_pin('fencing_lease_acquire(text, text, boolean, bigint)', 'fencing_lease_renew(text, text, bigint, bigint)',
    'fencing_lease_release(text, text, bigint)', 'fencing_lease_drain(text, bigint)');
