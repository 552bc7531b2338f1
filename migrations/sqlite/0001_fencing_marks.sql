-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in. Triggers refuse it.
-- BINARY compares bytes; NOCASE would take two names for one.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token BETWEEN 1 AND 999999999999999)
) STRICT, WITHOUT ROWID;

-- A value that is not a token may be put right. An INSERT OR REPLACE would delete the row, and
-- not fire the trigger for that.
CREATE TRIGGER IF NOT EXISTS fencing_marks_lower BEFORE UPDATE ON fencing_marks
    WHEN OLD.token BETWEEN 1 AND 999999999999999
        AND (NEW.token < OLD.token OR NEW.resource <> OLD.resource)
BEGIN
    SELECT RAISE(ABORT, 'fencing: a mark is never lowered or deleted: that lets stale writes in');
END;

CREATE TRIGGER IF NOT EXISTS fencing_marks_replace BEFORE INSERT ON fencing_marks
    WHEN NEW.token < (SELECT token FROM fencing_marks WHERE resource = NEW.resource)
BEGIN
    SELECT RAISE(ABORT, 'fencing: a mark is never lowered or deleted: that lets stale writes in');
END;

CREATE TRIGGER IF NOT EXISTS fencing_marks_delete BEFORE DELETE ON fencing_marks
BEGIN
    SELECT RAISE(ABORT, 'fencing: a mark is never lowered or deleted: that lets stale writes in');
END;
