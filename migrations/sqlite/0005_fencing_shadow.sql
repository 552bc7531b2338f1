-- Shadow mode: the fence refuses nothing, and records the first refusal of each place (a table, or `admit`),
-- resource and cause here. A transaction that rolls back, and so has written nothing, removes its rows.
-- From 1000 rows on the name of the resource is empty, and from 2000 on no row is added. To start over:
-- DELETE FROM fencing_refusals.
CREATE TABLE IF NOT EXISTS fencing_refusals (
    id INTEGER PRIMARY KEY,
    place TEXT NOT NULL,
    resource TEXT COLLATE BINARY NOT NULL,
    cause TEXT NOT NULL,
    -- SQLite knows no users.
    writer TEXT NOT NULL DEFAULT '',
    message TEXT NOT NULL,
    first_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
) STRICT;
CREATE INDEX IF NOT EXISTS fencing_refusals_of ON fencing_refusals (resource, place, cause);

-- INSERT INTO fencing_note VALUES (place, resource, cause, message): records a refusal, if it is new.
CREATE VIEW IF NOT EXISTS fencing_note (place, resource, cause, message) AS
    SELECT place, resource, cause, message FROM fencing_refusals;

CREATE TRIGGER IF NOT EXISTS fencing_note INSTEAD OF INSERT ON fencing_note
    WHEN NOT EXISTS (SELECT 1 FROM fencing_refusals WHERE place = NEW.place AND cause = NEW.cause
        AND resource IN (CAST(coalesce(NEW.resource, 'NULL') AS TEXT), ''))
BEGIN
    INSERT INTO fencing_refusals (place, resource, cause, message)
    SELECT NEW.place, iif(kept < 1000, CAST(coalesce(NEW.resource, 'NULL') AS TEXT), ''), NEW.cause,
        NEW.message
    FROM (SELECT count(*) AS kept FROM fencing_refusals) WHERE kept < 2000;
END;

-- INSERT INTO fencing_shadow VALUES (resource, presented, place): as fencing_check, but refuses
-- nothing. It raises the mark if the token would be admitted.
CREATE VIEW IF NOT EXISTS fencing_shadow (resource, presented, place) AS
    SELECT resource, token, '' FROM fencing_marks;

CREATE TRIGGER IF NOT EXISTS fencing_shadow INSTEAD OF INSERT ON fencing_shadow BEGIN
    INSERT INTO fencing_decided
    SELECT NEW.resource, NEW.presented, NEW.place, token, mark, CASE
        WHEN NEW.presented IS NULL THEN 'unpresented'
        WHEN typeof(NEW.resource) <> 'text'
            OR length(CAST(NEW.resource AS BLOB)) NOT BETWEEN 1 AND 255
            OR coalesce(token, 0) NOT BETWEEN 1 AND 999999999999999 THEN 'malformed'
        WHEN typeof(NEW.presented) <> 'text' THEN iif(mark > token, 'stale', NULL)
        WHEN instr(NEW.presented, ' ') NOT BETWEEN 2 AND 17
            OR instr(NEW.presented, ' ') = length(NEW.presented)
            OR substr(NEW.presented, (NEW.presented GLOB '-*') + 1, 1) NOT GLOB '[1-9]'
            OR substr(NEW.presented, 2, instr(NEW.presented, ' ') - 2) GLOB '*[^0-9]*'
            THEN 'malformed'
        WHEN substr(NEW.presented, instr(NEW.presented, ' ') + 1) <> NEW.resource
            THEN 'unpresented'
        WHEN mark > token THEN 'stale'
    END
    FROM (SELECT
        coalesce((SELECT token FROM fencing_marks WHERE resource = NEW.resource),
            (SELECT token + 1 FROM fencing_floor WHERE token > 0)) AS mark,
        CASE
            WHEN typeof(NEW.presented) = 'text' THEN
                abs(CAST(substr(NEW.presented, 1, min(instr(NEW.presented, ' ') - 1, 16)) AS INTEGER))
            WHEN typeof(NEW.presented) = 'integer'
                AND NEW.presented BETWEEN -999999999999999 AND 999999999999999
                THEN abs(NEW.presented)
        END AS token);
END;

-- Carries out the decision of fencing_shadow.
CREATE VIEW IF NOT EXISTS fencing_decided (resource, presented, place, token, mark, cause) AS
    SELECT resource, token, '', token, token, '' FROM fencing_marks;

CREATE TRIGGER IF NOT EXISTS fencing_decided_admit INSTEAD OF INSERT ON fencing_decided
    WHEN NEW.cause IS NULL BEGIN
    INSERT INTO fencing_admit VALUES (NEW.resource, NEW.token);
END;

CREATE TRIGGER IF NOT EXISTS fencing_decided_note INSTEAD OF INSERT ON fencing_decided
    WHEN NEW.cause IS NOT NULL BEGIN
    INSERT INTO fencing_note VALUES (NEW.place, NEW.resource, NEW.cause, CASE NEW.cause
        WHEN 'unpresented' THEN 'fencing: no token presented' || coalesce(', but the sequencer '
            || ltrim(NEW.presented, '-') || ' of another resource', '')
            || ', high water ' || coalesce(NEW.mark, 'none')
        WHEN 'malformed' THEN 'fencing: what was presented is malformed: ' || NEW.presented
        ELSE 'fencing: token ' || NEW.token || ' is stale, high water ' || NEW.mark
        END || ', resource ' || coalesce(NEW.resource, 'NULL'));
END;
