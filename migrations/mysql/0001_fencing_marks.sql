-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in.
-- `raised_at`: when the mark was raised last. Old ones may be pruned (`fencing marks prune`).
-- The row with the empty name is the floor: the mark of every resource that has none of its own. It is
-- raised above all that is pruned, and a mark below it may be deleted.
-- VARBINARY compares bytes; a collation would take R for r, and a name with a space at
-- its end for the one without. InnoDB has the row locks that the fence needs.
-- `admissions` counts on a Galera cluster alone: see fencing_count.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    admissions BIGINT NOT NULL DEFAULT 0 INVISIBLE,
    raised_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) INVISIBLE
) ENGINE = InnoDB;

-- The same table, for all that looks at the marks. A temporary table with the name of the
-- table would come before it for its session, but a view does not see it. Do not grant
-- CREATE TEMPORARY TABLES to writers: one with the name of the view would come first, too.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW fencing_marks_base AS
    SELECT resource, token, admissions, raised_at FROM fencing_marks;

INSERT INTO fencing_marks (resource, token) VALUES ('', 1) ON DUPLICATE KEY UPDATE resource = resource;
