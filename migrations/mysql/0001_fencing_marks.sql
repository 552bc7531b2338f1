-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in.
-- VARBINARY compares bytes; a collation would take R for r, and a name with a space at
-- its end for the one without. InnoDB has the row locks that the fence needs.
-- `admissions` counts on a Galera cluster alone: see fencing_count.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    admissions BIGINT NOT NULL DEFAULT 0 INVISIBLE
) ENGINE = InnoDB;

-- The same table, for all that looks at the marks. A temporary table with the name of the
-- table would come before it for its session, but a view does not see it. Do not grant
-- CREATE TEMPORARY TABLES to writers: one with the name of the view would come first, too.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW fencing_marks_base AS
    SELECT resource, token, admissions FROM fencing_marks;
