-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in.
-- BINARY compares bytes; NOCASE would take two names for one.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token BETWEEN 1 AND 999999999999999)
) STRICT, WITHOUT ROWID;
