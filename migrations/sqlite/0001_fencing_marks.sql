-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in.
-- `raised_at`: when the mark was raised last, in seconds since 1970. Old ones may be pruned (`fencing marks prune`).
-- The row with the empty name is the floor: the mark of every resource that has none of its own. It is
-- raised above all that is pruned, and a mark below it may be deleted.
-- BINARY compares bytes; NOCASE would take two names for one.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    raised_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER))
) STRICT, WITHOUT ROWID;
INSERT INTO fencing_marks (resource, token) SELECT '', 1
    WHERE NOT EXISTS (SELECT 1 FROM fencing_marks WHERE resource = '');
