-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in. Old ones may be pruned.
-- `raised_at`: when the mark was raised last.
-- "C" compares bytes: no two names count as one, and no update of the system's locale data
-- breaks the index.

-- Two tables on one search path would be two fences: writers could find different ones.
DO $fencing$
DECLARE
    other text := (SELECT format('%I.%I', nspname, relname)
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace AS home ON home.oid = relnamespace
        WHERE relname = 'fencing_marks' AND nspname = ANY (current_schemas(false))
        AND nspname <> current_schema() LIMIT 1);
BEGIN
    IF other IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42P07', MESSAGE = format(
            'fencing: the marks are in %s already, and would be created in %I once more: '
            'set a search_path with one of these schemas alone', other, current_schema());
    END IF;
END
$fencing$;

CREATE TABLE IF NOT EXISTS fencing_marks (
    resource text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    raised_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The floor, in one row, replaces the marks that were pruned: where a resource has no mark, tokens at or below the
-- floor are refused. It never falls. `server`: where the last lease was granted (fencing_last).
CREATE TABLE IF NOT EXISTS fencing_floor (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 999999999999997),
    server text
);
INSERT INTO fencing_floor (token) VALUES (0) ON CONFLICT DO NOTHING;
