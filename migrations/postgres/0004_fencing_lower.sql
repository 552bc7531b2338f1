-- A mark never falls: triggers refuse every statement that lowers, renames or deletes one. The exception
-- is fencing_lower, for a mark that was raised by a token that was never granted. Each call adds a line to
-- fencing_audit. A mark at or below the floor may be deleted, because the floor refuses the same tokens.

CREATE TABLE IF NOT EXISTS fencing_audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text COLLATE "C" NOT NULL,
    from_token bigint NOT NULL,
    to_token bigint NOT NULL,
    lowered_by text NOT NULL DEFAULT session_user,
    -- NULL within fencing_lower: permits the trigger to lower this mark.
    lowered_at timestamptz
);

-- fencing_guard: refuses to lower, rename or delete a mark, or to lower the floor (ZF403). It reads the audit with the
-- rights of its owner.
CREATE OR REPLACE FUNCTION fencing_guard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    AS $fencing$
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        NULL;
    ELSIF TG_TABLE_NAME = 'fencing_floor' AND TG_OP = 'UPDATE' THEN
        IF EXISTS (SELECT FROM fencing_audit
            WHERE resource = '' AND to_token = NEW.token AND lowered_at IS NULL)
        THEN
            RETURN NEW;
        END IF;
    ELSIF TG_TABLE_NAME = 'fencing_floor' THEN
        -- To restore another floor. Without a row no mark is created.
        IF OLD.token = 0 THEN
            RETURN OLD;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        IF OLD.token <= (SELECT token FROM fencing_floor) THEN
            RETURN OLD;
        END IF;
    ELSE
        IF NEW.resource = OLD.resource AND EXISTS (SELECT FROM fencing_audit
            WHERE resource = OLD.resource AND to_token = NEW.token AND lowered_at IS NULL)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'ZF403',
        MESSAGE = 'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in',
        HINT = 'If it was raised by a token that was never granted: SELECT fencing_lower(...)';
END
$fencing$;

-- WHEN: to raise a mark costs no call. A value that is not a token may be corrected.
DROP TRIGGER IF EXISTS fencing_marks_lower ON fencing_marks;
CREATE TRIGGER fencing_marks_lower BEFORE UPDATE ON fencing_marks FOR EACH ROW
    WHEN (OLD.token BETWEEN 1 AND 999999999999999
        AND (NEW.token < OLD.token OR NEW.resource <> OLD.resource))
    EXECUTE FUNCTION fencing_guard();

DROP TRIGGER IF EXISTS fencing_marks_delete ON fencing_marks;
CREATE TRIGGER fencing_marks_delete BEFORE DELETE ON fencing_marks
    FOR EACH ROW EXECUTE FUNCTION fencing_guard();

DROP TRIGGER IF EXISTS fencing_marks_truncate ON fencing_marks;
CREATE TRIGGER fencing_marks_truncate BEFORE TRUNCATE ON fencing_marks
    FOR EACH STATEMENT EXECUTE FUNCTION fencing_guard();

DROP TRIGGER IF EXISTS fencing_floor_lower ON fencing_floor;
CREATE TRIGGER fencing_floor_lower BEFORE UPDATE ON fencing_floor FOR EACH ROW
    WHEN (NEW.token < OLD.token) EXECUTE FUNCTION fencing_guard();

DROP TRIGGER IF EXISTS fencing_floor_delete ON fencing_floor;
CREATE TRIGGER fencing_floor_delete BEFORE DELETE ON fencing_floor
    FOR EACH ROW EXECUTE FUNCTION fencing_guard();

DROP TRIGGER IF EXISTS fencing_floor_truncate ON fencing_floor;
CREATE TRIGGER fencing_floor_truncate BEFORE TRUNCATE ON fencing_floor
    FOR EACH STATEMENT EXECUTE FUNCTION fencing_guard();

-- fencing_lower(resource, from, to): lowers a mark that was raised too far, if it is still `from`:
-- a call that is repeated must not undo what newer tokens have raised since. All tokens from `to`
-- on may write again, also those that were refused: choose one that is not below any that was
-- granted. It waits for those who write at the mark. ZF403: the mark is not `from`, or that is
-- not above `to`.
--
-- If the lease in the same database has granted the last token, 999999999999999, it continues after
-- `to`. Then `from` may be that token as well: a mark that has no token left above it
-- is lowered along with the lease, and any other mark stays.
--
-- The empty name is the floor, if a prune has raised it too far. Then tokens above `to` may write
-- again wherever a mark was pruned.
--
-- It works with the rights of its owner, and nobody else may call it before you GRANT EXECUTE.
CREATE OR REPLACE FUNCTION fencing_lower(the_resource text, the_from bigint, the_token bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $fencing$
DECLARE
    mark bigint;
    ran_out boolean;
    line bigint;
BEGIN
    IF (the_from BETWEEN 1 AND 999999999999999 AND the_token BETWEEN 1 AND 999999999999999)
        IS NOT TRUE
    THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF400',
            MESSAGE = 'fencing: a token lies between 1 and 999999999999999';
    END IF;
    -- It queues like fencing_hold: otherwise a stream of clients would keep it from the row.
    PERFORM pg_advisory_xact_lock(hashtextextended(the_resource, 28548280319532647));
    IF the_resource = '' THEN
        SELECT token INTO mark FROM fencing_floor FOR UPDATE;
    ELSE
        SELECT token INTO mark FROM fencing_marks WHERE resource = the_resource FOR UPDATE;
    END IF;
    ran_out := EXISTS (SELECT FROM fencing_leases
        WHERE resource = the_resource AND token = 999999999999999);
    IF the_from <= the_token
        OR mark IS DISTINCT FROM the_from AND NOT (ran_out AND the_from = 999999999999999)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF403', MESSAGE = format(
            'fencing: nothing was lowered from %s to %s, high water %s%s, resource %s',
            the_from, the_token, coalesce(mark::text, 'none'),
            CASE WHEN ran_out THEN ', lease 999999999999999' END, the_resource);
    END IF;
    INSERT INTO fencing_audit (resource, from_token, to_token)
    VALUES (the_resource, the_from, the_token) RETURNING id INTO line;
    UPDATE fencing_marks SET token = the_token
    WHERE resource = the_resource AND token > the_token
        AND (token = the_from OR token = 999999999999998);
    UPDATE fencing_floor SET token = the_token WHERE the_resource = '' AND token = the_from;
    UPDATE fencing_leases SET token = the_token
    WHERE resource = the_resource AND token = 999999999999999;
    UPDATE fencing_audit SET lowered_at = clock_timestamp() WHERE id = line;
END
$fencing$;

REVOKE EXECUTE ON FUNCTION fencing_guard(), fencing_lower(text, bigint, bigint) FROM PUBLIC;

SELECT fencing_pin('fencing_guard()', 'fencing_lower(text, bigint, bigint)');
