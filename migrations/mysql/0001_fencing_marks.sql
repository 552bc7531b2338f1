-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in. Old ones may be pruned.
-- `raised_at`: when the mark was raised last, in UTC.
-- VARBINARY compares bytes; a collation would take R for r, and a name with a space at
-- its end for the one without. InnoDB has the row locks that the fence needs.
-- `admissions` counts on a Galera cluster alone: see fencing_count.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    admissions BIGINT NOT NULL DEFAULT 0 INVISIBLE,
    raised_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) INVISIBLE
) ENGINE = InnoDB;

-- The same table, for all reads and writes of marks. A view never resolves to a temporary table, which would hide
-- `fencing_marks` from its session. Do not grant CREATE TEMPORARY TABLES to writers: one with the name of the view
-- hides the view.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW fencing_marks_base AS
    SELECT resource, token, admissions, raised_at FROM fencing_marks;

-- For reads that share the mark's row. A statement that fires triggers takes a writer's lock on each table that they
-- may write, by its name. Under another name a read in a trigger shares the row, and equal tokens do not deadlock.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW fencing_marks_shared AS
    SELECT resource, token FROM fencing_marks AS shared;

-- The floor, in one row, replaces the marks that were pruned: where a resource has no mark, tokens at or below the
-- floor are refused. It never falls. It has a table of its own, because no trigger writes it (see above).
-- `server`: the server_id where the last lease was granted (fencing_failed_over), or 0 on a Galera cluster, whose
-- nodes lose no commit.
CREATE TABLE IF NOT EXISTS fencing_floor (
    one INT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    token BIGINT NOT NULL CHECK (token BETWEEN 0 AND 999999999999997),
    server BIGINT
) ENGINE = InnoDB;
INSERT INTO fencing_floor (token) VALUES (0) ON DUPLICATE KEY UPDATE one = one;
