-- Pruning: marks that were raised long ago are deleted. First the floor rises to the highest of them, and
-- that is committed. So a transaction that does not find a deleted mark finds a floor as high.

-- fencing_above(): refuses a new mark at or below the floor, ZF412, whatever statement creates it. It
-- reads the floor after the row was inserted: from then on nobody else creates this mark until the transaction ends,
-- and if an earlier mark was deleted, the floor had risen by then. It keeps no lock.
--
-- Under REPEATABLE READ and SERIALIZABLE a plain read is as old as the snapshot. FOR SHARE fails with
-- 40001 if the floor has risen since. The lock itself is not needed, and ends with the block.
CREATE OR REPLACE FUNCTION fencing_above() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    AS $fencing$
DECLARE
    floor bigint;
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        BEGIN
            SELECT token INTO floor FROM fencing_floor FOR SHARE;
            RAISE SQLSTATE 'ZF000';
        EXCEPTION WHEN SQLSTATE 'ZF000' THEN
            NULL;
        END;
    ELSE
        SELECT token INTO floor FROM fencing_floor;
    END IF;
    IF NEW.token > floor THEN
        RETURN NULL;
    ELSIF floor IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF500', MESSAGE = format(
            'fencing: the mark is not a valid token, resource %s: fencing_floor has no row',
            NEW.resource);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'ZF412', MESSAGE = format(
        'fencing: token %s is stale, high water %s, resource %s',
        NEW.token, floor + 1, NEW.resource);
END
$fencing$;

DROP TRIGGER IF EXISTS fencing_marks_floor ON fencing_marks;
CREATE TRIGGER fencing_marks_floor AFTER INSERT ON fencing_marks FOR EACH ROW
    EXECUTE FUNCTION fencing_above();

-- fencing_prunable(seconds, highest): the marks that may be pruned: at most `highest`, last raised at least `seconds`
-- ago, without a current lease. Returns their number, the floor, and the highest of them.
CREATE OR REPLACE FUNCTION fencing_prunable(seconds bigint, highest bigint)
    RETURNS TABLE (marks bigint, floor bigint, resource text, token bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER AS $fencing$
BEGIN
    RETURN QUERY WITH old AS MATERIALIZED (
        SELECT mark.resource, mark.token FROM fencing_marks AS mark
        WHERE mark.raised_at <= clock_timestamp() - seconds * interval '1 second'
            AND mark.token BETWEEN 1 AND highest
            AND NOT EXISTS (SELECT FROM fencing_leases AS lease
                WHERE lease.resource = mark.resource AND lease.expires_at > clock_timestamp())
    )
    SELECT (SELECT count(*) FROM old), (SELECT own.token FROM fencing_floor AS own),
        old.resource, old.token
    FROM (SELECT) AS one LEFT JOIN old ON true ORDER BY old.token DESC LIMIT 1;
END
$fencing$;

-- fencing_raise_floor(token): raises the floor. A current lease without a mark gets one
-- first: otherwise its token would be refused. These marks are created in the order of their names, because it waits
-- for an open transaction that has created one of them, and two that create several must not deadlock. If the
-- floor rises between the read and the creation, the mark is refused: 40001, try again. ZF500: there is no floor.
CREATE OR REPLACE FUNCTION fencing_raise_floor(the_token bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $fencing$
BEGIN
    BEGIN
        INSERT INTO fencing_marks (resource, token)
        SELECT lease.resource, lease.token FROM fencing_leases AS lease
        WHERE lease.expires_at > clock_timestamp() AND lease.token <= the_token
            AND lease.token > (SELECT token FROM fencing_floor)
            AND NOT EXISTS (SELECT FROM fencing_marks AS mark WHERE mark.resource = lease.resource)
        ORDER BY lease.resource
        ON CONFLICT (resource) DO NOTHING;
    EXCEPTION WHEN SQLSTATE 'ZF412' THEN
        RAISE EXCEPTION USING ERRCODE = '40001',
            MESSAGE = 'fencing: the floor has risen meanwhile: try again';
    END;
    UPDATE fencing_floor SET token = the_token WHERE token < the_token;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM fencing_floor) THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF500', MESSAGE = 'fencing: fencing_floor has no row';
    END IF;
END
$fencing$;

-- fencing_server(): the server and its timeline, which a promotion changes; NULL if they can't be read.
CREATE OR REPLACE FUNCTION fencing_server() RETURNS text LANGUAGE plpgsql VOLATILE AS $fencing$
BEGIN
    RETURN (SELECT system_identifier FROM pg_catalog.pg_control_system()) || '/'
        || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8);
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$fencing$;

-- fencing_failed_over(): raises the floor above every token that the last server may have granted, if
-- this is another one: a promoted replica may have lost grants. The floor is the seconds since 2026 and six zeros:
-- no resource has a million grants in a second.
CREATE OR REPLACE FUNCTION fencing_failed_over()
    RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $fencing$
DECLARE
    own text := fencing_server();
    above bigint;
BEGIN
    SELECT least(999999999999997, greatest(token + 1000000, 1000000
        * floor(extract(epoch FROM clock_timestamp() - timestamptz '2026-01-01 00:00:00Z'))::bigint))
    INTO above FROM fencing_floor WHERE server IS DISTINCT FROM own AND own IS NOT NULL FOR UPDATE;
    IF FOUND THEN
        PERFORM fencing_raise_floor(above);
        UPDATE fencing_floor SET server = own;
    END IF;
END
$fencing$;

-- fencing_last(resource): the token that the next grant must be above: the mark or the floor, whichever is
-- higher. ZF500: there is no floor.
CREATE OR REPLACE FUNCTION fencing_last(the_resource text)
    RETURNS bigint LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    mark bigint;
    floor bigint;
BEGIN
    IF (SELECT server FROM fencing_floor) IS DISTINCT FROM fencing_server() THEN
        PERFORM fencing_failed_over();
    END IF;
    -- In one statement: a mark that was deleted meanwhile has raised the floor.
    SELECT (SELECT token FROM fencing_marks WHERE resource = the_resource), (SELECT token FROM fencing_floor)
    INTO mark, floor;
    IF floor IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF500', MESSAGE = 'fencing: fencing_floor has no row';
    END IF;
    RETURN greatest(mark, floor);
END
$fencing$;

-- If there are leases, the floor's row was lost: the next lease raises it.
UPDATE fencing_floor SET server = fencing_server()
WHERE token = 0 AND server IS NULL AND NOT EXISTS (SELECT 1 FROM fencing_leases);

-- fencing_prune(seconds, after, limit): deletes at most `limit` marks that may be pruned and are not above the floor, of
-- resources after this one. It skips marks that are locked. Returns their number, and the last name. It shares the
-- floor until the transaction ends, so that nobody lowers it by hand meanwhile; in a statement of its own, so that the
-- next one sees what it waited for.
CREATE OR REPLACE FUNCTION fencing_prune(seconds bigint, after text, at_most integer)
    RETURNS TABLE (pruned bigint, last text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $fencing$
BEGIN
    PERFORM FROM fencing_floor FOR SHARE;
    RETURN QUERY WITH old AS MATERIALIZED (
        SELECT mark.resource FROM fencing_marks AS mark
        WHERE mark.resource > after
            AND mark.raised_at <= clock_timestamp() - seconds * interval '1 second'
            AND mark.token BETWEEN 1 AND (SELECT token FROM fencing_floor)
            AND NOT EXISTS (SELECT FROM fencing_leases AS lease
                WHERE lease.resource = mark.resource AND lease.expires_at > clock_timestamp())
        ORDER BY mark.resource LIMIT at_most FOR UPDATE OF mark SKIP LOCKED
    ), gone AS (
        DELETE FROM fencing_marks AS mark USING old WHERE mark.resource = old.resource
        RETURNING mark.resource
    )
    SELECT count(*), max(gone.resource) FROM gone;
END
$fencing$;

REVOKE EXECUTE ON FUNCTION fencing_above(), fencing_prunable(bigint, bigint),
    fencing_raise_floor(bigint), fencing_prune(bigint, text, integer) FROM PUBLIC;

SELECT fencing_pin('fencing_above()', 'fencing_prunable(bigint, bigint)', 'fencing_failed_over()', 'fencing_last(text)',
    'fencing_raise_floor(bigint)', 'fencing_prune(bigint, text, integer)');

-- Compiling each batch of a prune would take far longer than the batch.
ALTER FUNCTION fencing_prunable(bigint, bigint) SET jit = off;
ALTER FUNCTION fencing_prune(bigint, text, integer) SET jit = off;
