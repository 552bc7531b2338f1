-- The leases of SqlLock: for each resource the last one granted, and when it expires by
-- this server's clock, in microseconds since 1970 (UTC); 0 is released.
-- `closed_for` is how long a grant or a renewal may close the row. If the clock has been set back, the
-- row seems to be closed for longer: `odd_since` is when that was noticed first, and the row is free
-- when it has been so for `closed_for` since then. A renewal puts it right.
-- `parts`: several share the lock. Each owner has a part of 49 bytes: its name (32), a space, or a dot when
-- it was released early, and the microsecond since 1970 at which it ends (16). The row expires with the
-- last of them. NULL: one holds it alone, or did at last. From `draining_since` until `draining_until`
-- nobody joins them, as somebody waits for all of them to leave.
-- Never delete a row: the tokens of its resource would start again at 1, or at its mark,
-- and a stale writer that has not yet reached the storage would pass. If you
-- have millions of resources: a row takes about 150 bytes, and you may delete those of
-- resources that nobody will lock again and that no write is still on its way to.
-- To free the lease of a holder that hangs: SET expires_at = 0.
-- VARBINARY compares bytes; a collation would take R for r, and a name with a space at
-- its end for the one without. InnoDB has the row locks that granting a lease needs.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner VARBINARY(128) NOT NULL,
    expires_at BIGINT NOT NULL,
    closed_for BIGINT,
    odd_since BIGINT,
    parts MEDIUMBLOB,
    draining_since BIGINT,
    draining_until BIGINT
) ENGINE = InnoDB;

-- The procedures of SqlLock. Each is a transaction of its own, whatever `autocommit`
-- says: it locks the row, reads the clock, decides and commits, so that no client can be
-- stopped between two of these steps. They roll back what the session had open, and leave
-- its settings as they were. If one fails it leaves no transaction open, and so no lock.
--
-- Each statement of a procedure has its own time, so UTC_TIMESTAMP(6) after the lock is a
-- time after the wait. It does not depend on the time zone. (In a single UPDATE it would be
-- the time before the wait; SYSDATE(6) is later, but local, and an hour has two readings
-- when the clocks go back.)
--
-- None waits in the server for much longer than its client does: `patience`, in seconds.
-- Under SERIALIZABLE the reads without a lock would lock, and wait for writers.
-- Where `innodb_snapshot_isolation` is on, a read without a lock makes a later one with a lock fail if
-- somebody has written in between. A row that several share is written all the time: so there the two are
-- different transactions, and what is decided is decided by the second.

-- fencing_lease_open(patience), fencing_lease_close(commits): what each of them begins and ends with. Meanwhile the
-- settings of the session are in @fencing_row_patience and @fencing_table_patience.
DROP PROCEDURE IF EXISTS fencing_lease_open;
CREATE PROCEDURE fencing_lease_open(IN patience BIGINT)
    SQL SECURITY INVOKER
BEGIN
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET @fencing_row_patience = @@SESSION.innodb_lock_wait_timeout,
        @fencing_table_patience = @@SESSION.lock_wait_timeout;
    SET SESSION innodb_lock_wait_timeout = LEAST(@fencing_row_patience, patience),
        SESSION lock_wait_timeout = LEAST(@fencing_table_patience, patience);
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    START TRANSACTION;
END;

DROP PROCEDURE IF EXISTS fencing_lease_close;
CREATE PROCEDURE fencing_lease_close(IN commits BOOLEAN)
    SQL SECURITY INVOKER
BEGIN
    IF commits THEN
        COMMIT AND NO CHAIN NO RELEASE;
    ELSE
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
    SET SESSION innodb_lock_wait_timeout = @fencing_row_patience,
        SESSION lock_wait_timeout = @fencing_table_patience;
END;

-- fencing_lease_acquire(resource, owner, milliseconds, patience): returns the token, if the
-- row was free or had expired; or for how many milliseconds it is still closed. The third number is 1
-- if several share it, and the last column is who holds it. An owner is 32 hexadecimal digits, and behind a
-- space its name, for people; in a part it has no name.
DROP PROCEDURE IF EXISTS fencing_lease_acquire;
CREATE PROCEDURE fencing_lease_acquire(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128),
    IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE closed BIGINT;
    DECLARE allowed BIGINT;
    DECLARE noticed BIGINT;
    DECLARE odd BOOLEAN;
    DECLARE corrected BOOLEAN;
    DECLARE mark BIGINT;
    DECLARE floor BIGINT;
    DECLARE home BIGINT;
    DECLARE last_token BIGINT;
    DECLARE last_owner VARBINARY(128);
    DECLARE granted BIGINT;
    DECLARE in_parts BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);

    -- A row that is closed is only read: that needs no wait for its lock.
    -- Of those who share it, the last one that has renewed is named.
    SELECT IF(owner = 'shared' AND parts IS NOT NULL, LEFT(RIGHT(parts, 49), 32), owner), expires_at, closed_for,
        odd_since, parts IS NOT NULL AND owner = 'shared'
    INTO last_owner, closed, allowed, noticed, in_parts
    FROM fencing_leases WHERE resource = the_resource;
    SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SET odd = COALESCE(closed > present + allowed, FALSE);
    SET corrected = NOT odd AND noticed IS NOT NULL;
    IF odd AND noticed <= present THEN
        SET closed = noticed + allowed, odd = FALSE;
    END IF;
    IF closed IS NULL OR closed <= present OR odd OR corrected THEN
        -- The mark may be above the row's token if the tokens came from elsewhere before,
        -- or the row was lost. Or it was pruned, and the floor stands for it.
        SELECT token INTO mark FROM fencing_marks_base WHERE resource = the_resource;
        SELECT token, server INTO floor, home FROM fencing_floor;
        IF floor IS NULL THEN
            SIGNAL SQLSTATE 'ZF500' SET MESSAGE_TEXT = 'fencing: fencing_floor has no row';
        END IF;
        IF COALESCE(home, -1) NOT IN (0, @@GLOBAL.server_id) THEN
            CALL fencing_failed_over();
            SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
            START TRANSACTION;
            SELECT token INTO floor FROM fencing_floor;
        END IF;
        SET mark = GREATEST(COALESCE(mark, 0), floor);
        -- Locks the row, and first creates it without an owner if it is missing: to read a
        -- missing row FOR UPDATE shares the gap with others, and then neither can insert.
        INSERT INTO fencing_leases (resource, token, owner, expires_at)
        VALUES (the_resource, COALESCE(mark, 0) + 1, '', 0)
        ON DUPLICATE KEY UPDATE token = token;
        -- The row as it is now, whatever the snapshot is.
        SELECT token, owner, expires_at, closed_for, odd_since, parts IS NOT NULL AND owner = 'shared'
        INTO last_token, last_owner, closed, allowed, noticed, in_parts
        FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        IF closed > present + allowed THEN
            SET noticed = LEAST(COALESCE(noticed, present), present);
            SET closed = noticed + allowed;
            UPDATE fencing_leases SET odd_since = noticed WHERE resource = the_resource;
        ELSEIF noticed IS NOT NULL THEN
            -- The clock was put right.
            UPDATE fencing_leases SET odd_since = NULL WHERE resource = the_resource;
        END IF;
        IF closed <= present THEN
            SET granted = last_token;
            IF last_owner <> '' THEN
                SET granted = GREATEST(last_token, COALESCE(mark, 0)) + 1;
            END IF;
            UPDATE fencing_leases
            SET token = granted, owner = the_owner, expires_at = present + lasting * 1000,
                closed_for = lasting * 1000, odd_since = NULL,
                parts = NULL, draining_since = NULL, draining_until = NULL
            WHERE resource = the_resource;
        END IF;
    END IF;
    CALL fencing_lease_close(TRUE);
    -- After the commit: the answer is on disk, if the server's settings say so.
    SELECT granted, (closed - present + 999) DIV 1000 AS remaining, in_parts, last_owner;
END;

-- fencing_lease_renew(resource, owner, token, milliseconds, patience): returns 1 if the row is closed for as
-- long from now on, and 0 if the lease is over. A released row stays released, whatever was still on its way.
DROP PROCEDURE IF EXISTS fencing_lease_renew;
CREATE PROCEDURE fencing_lease_renew(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128),
    IN the_token BIGINT, IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE last_token BIGINT;
    DECLARE last_owner VARBINARY(128);
    DECLARE closed BIGINT;
    DECLARE own BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    SELECT token, owner, expires_at INTO last_token, last_owner, closed
    FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
    SET own = last_owner = the_owner AND last_token = the_token;
    IF own AND closed <> 0 THEN
        UPDATE fencing_leases SET expires_at =
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + lasting * 1000,
            closed_for = lasting * 1000, odd_since = NULL
        WHERE resource = the_resource;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT COALESCE(own AND closed <> 0, FALSE) AS renewed;
END;

-- fencing_lease_release(resource, owner, patience): returns 1 if the row was this owner's and
-- closed until now, or this owner had released it before.
DROP PROCEDURE IF EXISTS fencing_lease_release;
CREATE PROCEDURE fencing_lease_release(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128), IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE last_owner VARBINARY(128);
    DECLARE closed BIGINT;
    DECLARE present BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    -- The row of another owner is only read.
    SELECT owner INTO last_owner FROM fencing_leases WHERE resource = the_resource;
    IF last_owner = the_owner THEN
        SELECT expires_at INTO closed FROM fencing_leases
        WHERE resource = the_resource AND owner = the_owner FOR UPDATE;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        IF closed > present THEN
            UPDATE fencing_leases SET expires_at = 0 WHERE resource = the_resource;
        END IF;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT COALESCE(closed > present OR closed = 0, FALSE) AS released;
END;

-- fencing_lease_shorten(resource, owner, milliseconds, patience): releases as above, but leaves the row
-- closed for so long, if it is not free before. Returns what fencing_lease_release does. The owner's
-- name gets a mark: a renewal that is still on its way must not find it.
DROP PROCEDURE IF EXISTS fencing_lease_shorten;
CREATE PROCEDURE fencing_lease_shorten(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(127),
    IN rest BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE last_owner VARBINARY(128);
    DECLARE closed BIGINT;
    DECLARE present BIGINT;
    DECLARE released BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    -- The row of another owner is only read.
    SELECT owner INTO last_owner FROM fencing_leases WHERE resource = the_resource;
    IF last_owner IN (the_owner, CONCAT(the_owner, '.')) THEN
        SELECT owner, expires_at INTO last_owner, closed FROM fencing_leases
        WHERE resource = the_resource FOR UPDATE;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        SET released = COALESCE(last_owner = CONCAT(the_owner, '.')
            OR (last_owner = the_owner AND closed > present), FALSE);
        IF released THEN
            UPDATE fencing_leases
            SET owner = CONCAT(the_owner, '.'), expires_at = LEAST(closed, present + rest * 1000)
            WHERE resource = the_resource;
        END IF;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT released;
END;

-- fencing_lease_parts(parts, owner, present, latest end, end): takes off the parts that have ended, and
-- that of the owner; and lets none end after the latest end: then the clock was set back. Gives the
-- last end of those that are left, or 0.
DROP PROCEDURE IF EXISTS fencing_lease_parts;
CREATE PROCEDURE fencing_lease_parts(
    INOUT the_parts MEDIUMBLOB, IN the_owner VARBINARY(128),
    IN present BIGINT, IN latest BIGINT, OUT closed BIGINT)
    NO SQL
    SQL SECURITY INVOKER
BEGIN
    DECLARE place INT DEFAULT 1;
    DECLARE part VARBINARY(49);
    DECLARE part_end BIGINT;
    DECLARE kept MEDIUMBLOB DEFAULT '';
    SET closed = 0;
    WHILE place < LENGTH(the_parts) DO
        SET part = SUBSTRING(the_parts, place, 49), place = place + 49;
        SET part_end = LEAST(CAST(SUBSTRING(part, 34) AS SIGNED), latest);
        IF part_end > present AND LEFT(part, 32) <> the_owner THEN
            SET closed = GREATEST(closed, part_end);
            SET kept = CONCAT(kept, LEFT(part, 33), CONVERT(LPAD(part_end, 16, '0') USING ascii));
        END IF;
    END WHILE;
    SET the_parts = kept;
END;

-- fencing_lease_share(resource, owner, milliseconds, patience): returns the token, if the row was free or
-- several share it; or for how many milliseconds one holds it alone, or waits for that. Those who join have
-- the row's token, unless the mark is above it.
DROP PROCEDURE IF EXISTS fencing_lease_share;
CREATE PROCEDURE fencing_lease_share(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128),
    IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE closed BIGINT;
    DECLARE allowed BIGINT;
    DECLARE noticed BIGINT;
    DECLARE odd BOOLEAN;
    DECLARE mark BIGINT;
    DECLARE floor BIGINT;
    DECLARE home BIGINT;
    DECLARE last_token BIGINT;
    DECLARE last_owner VARBINARY(128);
    DECLARE others MEDIUMBLOB;
    DECLARE others_end BIGINT;
    DECLARE draining BIGINT;
    DECLARE drained BIGINT;
    DECLARE in_parts BOOLEAN DEFAULT FALSE;
    DECLARE granted BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);

    -- A row that is closed is only read.
    SELECT owner, expires_at, closed_for, odd_since,
        parts IS NOT NULL AND closed_for IS NOT NULL AND owner = 'shared', draining_since, draining_until
    INTO last_owner, closed, allowed, noticed, in_parts, draining, drained
    FROM fencing_leases WHERE resource = the_resource;
    SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SET odd = COALESCE(closed > present + allowed OR noticed IS NOT NULL, FALSE);
    IF draining <= present AND drained > present THEN
        SET closed = drained;
    ELSEIF closed IS NULL OR closed <= present OR odd OR in_parts THEN
        SELECT token INTO mark FROM fencing_marks_base WHERE resource = the_resource;
        -- Where there is a mark the floor counts for a new group alone: those who share the row go on.
        SELECT token, server INTO floor, home FROM fencing_floor;
        IF floor IS NULL THEN
            SIGNAL SQLSTATE 'ZF500' SET MESSAGE_TEXT = 'fencing: fencing_floor has no row';
        END IF;
        IF COALESCE(home, -1) NOT IN (0, @@GLOBAL.server_id) THEN
            CALL fencing_failed_over();
            SELECT token INTO floor FROM fencing_floor;
        END IF;
        SET mark = COALESCE(mark, floor);
        -- The locking read must not be of an older snapshot: see the top.
        COMMIT AND NO CHAIN NO RELEASE;
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
        START TRANSACTION;
        -- As in fencing_lease_acquire.
        INSERT INTO fencing_leases (resource, token, owner, expires_at)
        VALUES (the_resource, GREATEST(mark, floor) + 1, '', 0)
        ON DUPLICATE KEY UPDATE token = token;
        SELECT token, owner, expires_at, closed_for, odd_since,
            parts IS NOT NULL AND closed_for IS NOT NULL AND owner = 'shared', parts,
            draining_since, draining_until
        INTO last_token, last_owner, closed, allowed, noticed, in_parts, others, draining, drained
        FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        IF in_parts THEN
            SET noticed = NULL;
        ELSEIF closed > present + allowed THEN
            SET noticed = LEAST(COALESCE(noticed, present), present);
            SET closed = noticed + allowed;
            UPDATE fencing_leases SET odd_since = noticed WHERE resource = the_resource;
        ELSEIF noticed IS NOT NULL THEN
            UPDATE fencing_leases SET odd_since = NULL WHERE resource = the_resource;
        END IF;
        IF draining <= present AND drained > present THEN
            SET closed = drained;
        ELSEIF in_parts OR closed <= present THEN
            SET granted = last_token;
            IF in_parts AND closed > present THEN
                -- It joins others.
                SET allowed = GREATEST(allowed, lasting * 1000);
                IF mark > last_token THEN
                    SET granted = mark + 1;
                END IF;
            ELSE
                SET allowed = lasting * 1000, others = NULL;
                IF last_owner <> '' THEN
                    SET granted = GREATEST(last_token, mark, floor) + 1;
                END IF;
            END IF;
            CALL fencing_lease_parts(others, the_owner, present, present + allowed, others_end);
            SET closed = GREATEST(others_end, present + lasting * 1000);
            SET others = CONCAT(others, the_owner, ' ',
                CONVERT(LPAD(present + lasting * 1000, 16, '0') USING ascii));
            IF others IS NULL OR LENGTH(the_owner) <> 32 THEN
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'fencing: too many share this lock';
            END IF;
            UPDATE fencing_leases
            SET token = granted, owner = 'shared', expires_at = closed, closed_for = allowed,
                odd_since = NULL, parts = others
            WHERE resource = the_resource;
        END IF;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT granted, (closed - present + 999) DIV 1000 AS remaining, last_owner;
END;

-- fencing_lease_renew_part(resource, owner, token, milliseconds, patience): returns what
-- fencing_lease_renew does, of one part.
DROP PROCEDURE IF EXISTS fencing_lease_renew_part;
CREATE PROCEDURE fencing_lease_renew_part(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128),
    IN the_token BIGINT, IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE last_token BIGINT;
    DECLARE closed BIGINT;
    DECLARE allowed BIGINT;
    DECLARE others MEDIUMBLOB;
    DECLARE others_end BIGINT;
    DECLARE own BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    SELECT token, expires_at, GREATEST(COALESCE(closed_for, 0), lasting * 1000),
        IF(owner = 'shared', parts, NULL)
    INTO last_token, closed, allowed, others
    FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
    SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SET own = COALESCE(closed <> 0 AND LOCATE(CONCAT(the_owner, ' '), others) > 0, FALSE);
    IF own THEN
        CALL fencing_lease_parts(others, the_owner, present, present + allowed, others_end);
        UPDATE fencing_leases
        SET expires_at = GREATEST(others_end, present + lasting * 1000), closed_for = allowed,
            odd_since = NULL, parts = CONCAT(others, the_owner, ' ',
                CONVERT(LPAD(present + lasting * 1000, 16, '0') USING ascii))
        WHERE resource = the_resource;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT own AS renewed;
END;

-- fencing_lease_leave(resource, owner, rest, patience): releases one part, or ends it after the rest in
-- milliseconds, if it does not end before. Returns 0 if it was over, 1 if others have parts still, and 2
-- if the row is free now.
DROP PROCEDURE IF EXISTS fencing_lease_leave;
CREATE PROCEDURE fencing_lease_leave(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128),
    IN rest BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE closed BIGINT;
    DECLARE allowed BIGINT;
    DECLARE others MEDIUMBLOB;
    DECLARE others_end BIGINT;
    DECLARE place BIGINT DEFAULT 0;
    DECLARE own_end BIGINT;
    DECLARE released BIGINT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    -- Where it has no part the row is only read.
    SELECT LOCATE(the_owner, parts) INTO place FROM fencing_leases WHERE resource = the_resource;
    IF place > 0 THEN
        -- As in fencing_lease_share. What is left is decided by the row as it is then.
        COMMIT AND NO CHAIN NO RELEASE;
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
        START TRANSACTION;
        SELECT expires_at, COALESCE(closed_for, 1000000000000000),
            IF(owner = 'shared', parts, NULL)
        INTO closed, allowed, others
        FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        SET place = COALESCE(LOCATE(the_owner, others), 0);
        SET own_end = CAST(SUBSTRING(others, place + 33, 16) AS SIGNED);
        IF place > 0 AND closed > present AND own_end > present THEN
            CALL fencing_lease_parts(others, the_owner, present, present + allowed, others_end);
            SET released = IF(others_end > 0, 1, 2), closed = others_end;
            IF rest > 0 THEN
                -- Under a name that no renewal finds.
                SET own_end = LEAST(own_end, present + rest * 1000), released = 1;
                SET closed = GREATEST(closed, own_end);
                SET others = CONCAT(others, the_owner, '.',
                    CONVERT(LPAD(own_end, 16, '0') USING ascii));
            END IF;
            UPDATE fencing_leases SET expires_at = closed, odd_since = NULL, parts = others
            WHERE resource = the_resource;
        END IF;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT released;
END;

-- fencing_lease_drain(resource, milliseconds, patience): keeps others from joining those who share the
-- row, as somebody waits for all of them to leave: for 20 s at most, and then not for as long.
DROP PROCEDURE IF EXISTS fencing_lease_drain;
CREATE PROCEDURE fencing_lease_drain(
    IN the_resource VARBINARY(255), IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE closed BIGINT;
    DECLARE draining BIGINT;
    DECLARE drained BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    SELECT expires_at, draining_since, draining_until INTO closed, draining, drained
    FROM fencing_leases WHERE resource = the_resource AND parts IS NOT NULL AND owner = 'shared'
    FOR UPDATE;
    SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    IF closed > present THEN
        IF NOT COALESCE(draining <= present AND draining > present - 40000000, FALSE) THEN
            SET draining = present, drained = 0;
        END IF;
        UPDATE fencing_leases
        SET draining_since = draining, draining_until =
            GREATEST(drained, LEAST(present + lasting * 1000, draining + 20000000))
        WHERE resource = the_resource;
    END IF;
    CALL fencing_lease_close(TRUE);
END;
