-- A mark never falls: triggers refuse every statement that lowers, renames or deletes one. The exception
-- is fencing_lower, for a mark that was raised by a token that was never granted. Each call adds a line to
-- fencing_audit. SQLite has no users: anybody who may write the file may also drop the triggers.

CREATE TABLE IF NOT EXISTS fencing_audit (
    id INTEGER PRIMARY KEY,
    resource TEXT COLLATE BINARY NOT NULL,
    from_token INTEGER NOT NULL,
    to_token INTEGER NOT NULL,
    -- NULL within fencing_lower: permits the trigger to lower this mark. In UTC.
    lowered_at TEXT
) STRICT;

-- A value that is not a token may be corrected.
DROP TRIGGER IF EXISTS fencing_marks_lower;
CREATE TRIGGER fencing_marks_lower BEFORE UPDATE ON fencing_marks
    WHEN (NEW.token < OLD.token OR NEW.resource <> OLD.resource)
        AND OLD.token BETWEEN 1 AND 999999999999999
        AND NOT EXISTS (SELECT 1 FROM fencing_audit WHERE resource = OLD.resource
            AND resource = NEW.resource AND to_token = NEW.token AND lowered_at IS NULL)
BEGIN
    SELECT RAISE(ABORT,
        'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in');
END;

-- An INSERT OR REPLACE deletes the old row, and fires no trigger for that.
DROP TRIGGER IF EXISTS fencing_marks_replace;
CREATE TRIGGER fencing_marks_replace BEFORE INSERT ON fencing_marks
    WHEN NEW.token < (SELECT token FROM fencing_marks WHERE resource = NEW.resource)
BEGIN
    SELECT RAISE(ABORT,
        'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in');
END;

-- A mark at or below the floor may be deleted, because the floor refuses the same tokens.
DROP TRIGGER IF EXISTS fencing_marks_delete;
CREATE TRIGGER fencing_marks_delete BEFORE DELETE ON fencing_marks
    WHEN OLD.token > coalesce((SELECT token FROM fencing_floor), 0)
BEGIN
    SELECT RAISE(ABORT,
        'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in');
END;

-- INSERT INTO fencing_lower VALUES (resource, from, to): lowers a mark that was raised too far, if
-- it is still `from`: a call that is repeated must not undo what newer tokens have raised since.
-- All tokens from `to` on may write again, also those that were refused: choose one that is not
-- below any that was granted.
--
-- If the lease in the same database has granted the last token, 999999999999999, it continues after
-- `to`. Then `from` may be that token as well: a mark that has no token left above it
-- is lowered along with the lease, and any other mark stays.
--
-- The empty name is the floor, if a prune has raised it too far. Then tokens above `to` may write
-- again wherever a mark was pruned.
CREATE VIEW IF NOT EXISTS fencing_lower (resource, from_token, to_token) AS
    SELECT resource, token, token FROM fencing_marks;

DROP TRIGGER IF EXISTS fencing_lower;
CREATE TRIGGER fencing_lower INSTEAD OF INSERT ON fencing_lower BEGIN
    SELECT CASE
        WHEN typeof(NEW.to_token) <> 'integer' OR NEW.to_token NOT BETWEEN 1 AND 999999999999999
            THEN json_extract('{}', 'fencing: a token lies between 1 and 999999999999999, not '
                || coalesce(NEW.to_token, 'NULL'))
        WHEN NEW.from_token IS NULL OR NEW.from_token <= NEW.to_token
            OR NOT EXISTS (SELECT 1 FROM fencing_marks
                WHERE resource = NEW.resource AND token = NEW.from_token)
            AND NOT EXISTS (SELECT 1 FROM fencing_leases WHERE resource = NEW.resource
                AND token = 999999999999999 AND token = NEW.from_token)
            AND NOT EXISTS (SELECT 1 FROM fencing_floor
                WHERE NEW.resource = '' AND token = NEW.from_token)
            THEN json_extract('{}', 'fencing: nothing was lowered from '
                || coalesce(NEW.from_token, 'NULL') || ' to ' || NEW.to_token
                || ', high water ' || coalesce(
                    (SELECT token FROM fencing_marks WHERE resource = NEW.resource),
                    (SELECT token FROM fencing_floor WHERE NEW.resource = ''), 'none')
                || coalesce((SELECT ', lease ' || token FROM fencing_leases
                    WHERE resource = NEW.resource AND token = 999999999999999), '')
                || ', resource ' || coalesce(NEW.resource, 'NULL'))
    END;
    INSERT INTO fencing_audit (resource, from_token, to_token)
    VALUES (NEW.resource, NEW.from_token, NEW.to_token);
    UPDATE fencing_marks SET token = NEW.to_token
        WHERE resource = NEW.resource AND token > NEW.to_token
            AND (token = NEW.from_token OR token = 999999999999998);
    UPDATE fencing_leases SET token = NEW.to_token
        WHERE resource = NEW.resource AND token = 999999999999999;
    UPDATE fencing_floor SET token = NEW.to_token
        WHERE NEW.resource = '' AND token = NEW.from_token;
    UPDATE fencing_audit SET lowered_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
        WHERE lowered_at IS NULL;
END;
