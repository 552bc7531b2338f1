-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in. A trigger refuses it, also to the
-- owner, who may do so all the same: ALTER TABLE fencing_marks DISABLE TRIGGER USER.
-- "C" compares bytes: no two names count as one, and no update of the system's locale data
-- breaks the index.

-- Two tables on one search path would be two fences: each writer may find another.
DO $fencing$
DECLARE
    other text := (SELECT format('%I.%I', nspname, relname)
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace AS home ON home.oid = relnamespace
        WHERE relname = 'fencing_marks' AND nspname = ANY (current_schemas(false))
        AND nspname <> current_schema() LIMIT 1);
BEGIN
    IF other IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42P07', MESSAGE = format(
            'fencing: the marks stand in %s already, and would be created in %I once more: '
            'set a search_path with one of these schemas alone', other, current_schema());
    END IF;
END
$fencing$;

CREATE TABLE IF NOT EXISTS fencing_marks (
    resource text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 999999999999999)
);

-- ZF403: who lowers, renames, or deletes a mark. WHEN: to raise one costs no call. A value that
-- is not a token may be put right.
CREATE OR REPLACE FUNCTION fencing_marks_guard() RETURNS trigger LANGUAGE plpgsql AS $fencing$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'ZF403',
        MESSAGE = 'fencing: a mark is never lowered or deleted: that lets stale writes in';
END
$fencing$;

DROP TRIGGER IF EXISTS fencing_marks_lower ON fencing_marks;
CREATE TRIGGER fencing_marks_lower BEFORE UPDATE ON fencing_marks FOR EACH ROW
    WHEN (OLD.token BETWEEN 1 AND 999999999999999
        AND (NEW.token < OLD.token OR NEW.resource <> OLD.resource))
    EXECUTE FUNCTION fencing_marks_guard();

DROP TRIGGER IF EXISTS fencing_marks_delete ON fencing_marks;
CREATE TRIGGER fencing_marks_delete BEFORE DELETE OR TRUNCATE ON fencing_marks
    FOR EACH STATEMENT EXECUTE FUNCTION fencing_marks_guard();
