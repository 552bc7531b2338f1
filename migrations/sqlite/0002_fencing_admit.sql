-- INSERT INTO fencing_admit VALUES (resource, token): compares the token with the mark of
-- the resource and raises the mark to it, in the caller's transaction. Equal passes. Begin
-- the transaction IMMEDIATE. The errors begin with `fencing: `.
--
-- Before SQLite 3.47, RAISE takes no message that is built at run time. But json_extract
-- repeats an invalid path in its error.
--
-- No statement in these triggers may meet a conflict: the policy of the outer statement, such as OR IGNORE,
-- would apply to it.
CREATE VIEW IF NOT EXISTS fencing_admit (resource, token) AS
    SELECT resource, token FROM fencing_marks;

DROP TRIGGER IF EXISTS fencing_admit;
CREATE TRIGGER fencing_admit INSTEAD OF INSERT ON fencing_admit BEGIN
    SELECT CASE
        WHEN NEW.token IS NULL
            THEN json_extract('{}', 'fencing: no token presented, high water ' || coalesce(
                (SELECT token FROM fencing_marks WHERE resource = NEW.resource), 'none')
                || ', resource ' || coalesce(NEW.resource, 'NULL'))
        WHEN typeof(NEW.token) <> 'integer' OR NEW.token NOT BETWEEN 1 AND 999999999999999
            THEN json_extract('{}', 'fencing: a token lies between 1 and 999999999999999, not '
                || NEW.token)
        WHEN typeof(NEW.resource) <> 'text'
            OR length(CAST(NEW.resource AS BLOB)) NOT BETWEEN 1 AND 255
            THEN json_extract('{}', 'fencing: a resource name has 1 to 255 bytes, token '
                || NEW.token)
        WHEN (SELECT coalesce(token, 0) NOT BETWEEN 1 AND 999999999999999
                FROM fencing_marks WHERE resource = NEW.resource)
            THEN json_extract('{}', 'fencing: the mark of ' || NEW.resource || ' is not a valid token')
        WHEN (SELECT token FROM fencing_marks WHERE resource = NEW.resource) > NEW.token
            THEN json_extract('{}', 'fencing: token ' || NEW.token || ' is stale, high water '
                || (SELECT token FROM fencing_marks WHERE resource = NEW.resource)
                || ', resource ' || NEW.resource)
    END;
    UPDATE fencing_marks SET token = NEW.token, raised_at = unixepoch()
        WHERE resource = NEW.resource AND token < NEW.token;
    -- The trigger fencing_marks_floor refuses what is not above the floor.
    INSERT INTO fencing_marks (resource, token) SELECT NEW.resource, NEW.token
        WHERE NOT EXISTS (SELECT 1 FROM fencing_marks WHERE resource = NEW.resource);
END;

-- INSERT INTO fencing_check VALUES (resource, presented): admits what the write of a
-- row presents, for the triggers of protected tables. A token together with its resource
-- (`34 docs/a`: the token, one space, the name) counts for rows of that resource, a bare token
-- (34) for rows of every resource. A minus before either deletes the row.
CREATE VIEW IF NOT EXISTS fencing_check (resource, presented) AS
    SELECT resource, token FROM fencing_marks;

DROP TRIGGER IF EXISTS fencing_check;
CREATE TRIGGER fencing_check INSTEAD OF INSERT ON fencing_check BEGIN
    SELECT CASE
        WHEN typeof(NEW.presented) <> 'text' THEN NULL
        WHEN instr(NEW.presented, ' ') NOT BETWEEN 2 AND 17
            OR instr(NEW.presented, ' ') = length(NEW.presented)
            OR substr(NEW.presented, (NEW.presented GLOB '-*') + 1, 1) NOT GLOB '[1-9]'
            OR substr(NEW.presented, 2, instr(NEW.presented, ' ') - 2) GLOB '*[^0-9]*'
            THEN json_extract('{}', 'fencing: a sequencer is a token, one space and a '
                || 'resource, as in 34 docs/a, not ' || NEW.presented)
        WHEN substr(NEW.presented, instr(NEW.presented, ' ') + 1) <> NEW.resource
            THEN json_extract('{}', 'fencing: no token presented, but the sequencer '
                || ltrim(NEW.presented, '-') || ' of another resource, high water ' || coalesce(
                (SELECT token FROM fencing_marks WHERE resource = NEW.resource), 'none')
                || ', resource ' || NEW.resource)
    END;
    INSERT INTO fencing_admit VALUES (NEW.resource, CASE typeof(NEW.presented)
        WHEN 'text' THEN abs(CAST(
            substr(NEW.presented, 1, instr(NEW.presented, ' ') - 1) AS INTEGER))
        ELSE abs(NEW.presented)
    END);
END;
