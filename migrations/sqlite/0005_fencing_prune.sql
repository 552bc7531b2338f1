-- Pruning: marks that were raised long ago are deleted. First the floor rises to the highest of them.
-- The database has one writer at a time, so each write sees the newest floor.

-- Refuses a new mark at or below the floor, whatever statement creates it, by json_extract as in
-- fencing_admit. An upsert that finds the mark does not fire it.
DROP TRIGGER IF EXISTS fencing_marks_floor;
CREATE TRIGGER fencing_marks_floor AFTER INSERT ON fencing_marks
    WHEN (NEW.token > (SELECT token FROM fencing_floor)) IS NOT TRUE
BEGIN
    SELECT json_extract('{}', CASE WHEN NOT EXISTS (SELECT 1 FROM fencing_floor)
        THEN 'fencing: the mark is not a valid token, resource ' || NEW.resource
            || ': fencing_floor has no row'
        ELSE 'fencing: token ' || NEW.token || ' is stale, high water '
            || (SELECT token + 1 FROM fencing_floor) || ', resource ' || NEW.resource
    END);
END;

DROP TRIGGER IF EXISTS fencing_floor_lower;
CREATE TRIGGER fencing_floor_lower BEFORE UPDATE ON fencing_floor
    WHEN NEW.token < OLD.token AND NOT EXISTS (SELECT 1 FROM fencing_audit
        WHERE resource = '' AND to_token = NEW.token AND lowered_at IS NULL)
BEGIN
    SELECT RAISE(ABORT,
        'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in');
END;

-- An INSERT OR REPLACE deletes the old row, and fires no trigger for that. If there is a floor, a higher one
-- raises it and is not inserted: so a restore of data alone restores its floor.
DROP TRIGGER IF EXISTS fencing_floor_replace;
CREATE TRIGGER fencing_floor_replace BEFORE INSERT ON fencing_floor
    WHEN EXISTS (SELECT 1 FROM fencing_floor)
BEGIN
    SELECT RAISE(ABORT,
        'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in')
        WHERE (NEW.token >= (SELECT token FROM fencing_floor)) IS NOT TRUE;
    UPDATE fencing_floor SET token = NEW.token WHERE token < NEW.token;
    SELECT RAISE(IGNORE);
END;

-- A floor of 0 refuses nothing. Without a row no mark is created.
DROP TRIGGER IF EXISTS fencing_floor_delete;
CREATE TRIGGER fencing_floor_delete BEFORE DELETE ON fencing_floor
    WHEN OLD.token <> 0
BEGIN
    SELECT RAISE(ABORT,
        'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in');
END;
