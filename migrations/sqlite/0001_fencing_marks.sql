-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in. Old ones may be pruned.
-- `raised_at`: when the mark was raised last, in seconds since 1970.
-- BINARY compares bytes; NOCASE would take two names for one.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    raised_at INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT, WITHOUT ROWID;

-- The floor, in one row, replaces the marks that were pruned: where a resource has no mark, tokens at or below the
-- floor are refused. It never falls.
CREATE TABLE IF NOT EXISTS fencing_floor (
    one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    token INTEGER NOT NULL CHECK (token BETWEEN 0 AND 999999999999997)
) STRICT;
INSERT INTO fencing_floor (token) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM fencing_floor);
