-- The leases of SqlLock: for each resource the last one granted, and when it expires by
-- this server's clock, in microseconds since 1970 (UTC); 0 is released.
-- `closed_for` is how long a grant or a renewal may close the row. If the clock was set back, the
-- row seems to be closed for longer: `clock_anomaly_since` is when that was first noticed, and `closed_for` counts from
-- then. A renewal corrects the row.
-- `parts`: several share the lock. Each owner has a part of 49 bytes: its digits (32), a space, or a dot if
-- it was released early, and the microsecond since 1970 at which it ends (16). The row expires with the
-- last of them. NULL: the last lease was exclusive. From `draining_since` until `draining_until`
-- nobody joins them, because an exclusive client waits for all of them to leave.
-- Never delete a row: the tokens of its resource would start again at 1, or at its mark,
-- and a stale writer that has not yet reached the storage would pass. A row takes about 150 bytes. If you
-- have millions, you may delete those of resources that will never be locked again and have no write on its way.
-- To free the lease of a holder that hangs: SET expires_at = 0.
-- VARBINARY compares bytes; a collation would take R for r, and a name with a space at
-- its end for the one without. InnoDB has the row locks that granting a lease needs.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner VARBINARY(128) NOT NULL,
    expires_at BIGINT NOT NULL,
    closed_for BIGINT,
    clock_anomaly_since BIGINT,
    parts MEDIUMBLOB,
    draining_since BIGINT,
    draining_until BIGINT
) ENGINE = InnoDB;

-- The procedures of SqlLock. Each is a transaction of its own, whatever `autocommit`
-- says: it locks the row, reads the clock, decides and commits, so that no client can be
-- stopped between two of these steps. They roll back an open transaction of the session, and restore
-- its settings. One that fails leaves no transaction open, and so no lock.
--
-- Each statement of a procedure has its own time, so UTC_TIMESTAMP(6) after the lock is a
-- time after the wait. It does not depend on the time zone. (In a single UPDATE it would be
-- the time before the wait; SYSDATE(6) is later, but local, and an hour has two readings
-- when the clocks go back.)
--
-- None waits in the server for much longer than its client does: `patience`, in seconds.
-- Under SERIALIZABLE the reads without a lock would lock, and wait for writers.
-- Where `innodb_snapshot_isolation` is on, a read without a lock makes a later one with a lock fail if
-- another transaction has written in between. So the two are different transactions, and the second decides.
--
-- An exclusive lease is a part held alone: one row has either an owner, or `parts` and the owner 'shared'. An owner is 32 hexadecimal digits, a space,
-- and its name for display, which parts leave out. `lasting` and `rest` are in milliseconds.

-- fencing_lease_open(patience), fencing_lease_close(commits): the frame of each procedure. Meanwhile the settings of
-- the session are in @fencing_row_patience and @fencing_table_patience.
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

-- fencing_lease_parts(parts, owner, sign, own end, present, latest, end): takes off the parts that have ended, and that
-- of the owner, which gets another with this sign and end, unless its end is NULL. None of the others ends after the
-- latest end: then the clock was set back. Gives the last end of all, or 0. The part that ends last is the last one.
DROP PROCEDURE IF EXISTS fencing_lease_parts;
CREATE PROCEDURE fencing_lease_parts(
    INOUT the_parts MEDIUMBLOB, IN the_owner VARBINARY(32), IN sign VARBINARY(1), IN own_end BIGINT,
    IN present BIGINT, IN latest BIGINT, OUT last_end BIGINT)
    NO SQL
    SQL SECURITY INVOKER
BEGIN
    DECLARE place INT DEFAULT 1;
    DECLARE part VARBINARY(49);
    DECLARE part_end BIGINT;
    DECLARE kept MEDIUMBLOB DEFAULT '';
    SET last_end = COALESCE(own_end, 0);
    WHILE place < LENGTH(the_parts) DO
        SET part = SUBSTRING(the_parts, place, 49), place = place + 49;
        SET part_end = LEAST(CAST(SUBSTRING(part, 34) AS SIGNED), latest);
        IF part_end > present AND LEFT(part, 32) <> the_owner THEN
            IF own_end < part_end THEN
                SET kept = CONCAT(kept, the_owner, sign, CONVERT(LPAD(own_end, 16, '0') USING ascii)), own_end = NULL;
            END IF;
            SET last_end = GREATEST(last_end, part_end);
            SET kept = CONCAT(kept, LEFT(part, 33), CONVERT(LPAD(part_end, 16, '0') USING ascii));
        END IF;
    END WHILE;
    IF own_end IS NOT NULL THEN
        SET kept = CONCAT(kept, the_owner, sign, CONVERT(LPAD(own_end, 16, '0') USING ascii));
    END IF;
    IF kept IS NULL OR LENGTH(kept) % 49 <> 0 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'fencing: too many share this lock';
    END IF;
    SET the_parts = kept;
END;

-- fencing_lease_acquire(resource, owner, shares, lasting, patience): returns the token if the row is free, or if the
-- claim may join those who share it; or for how many milliseconds it is closed, 1 if others share it, and its holder: of
-- several, the one whose part ends last.
--
-- A row that is closed is only read, without a wait for its lock, unless the anomaly of a clock must be noted.
--
-- The token is above the row's last one, the mark and the floor: the tokens may have come from elsewhere before, or the
-- row was lost, or its mark was pruned. Those who join have the row's token, unless the mark is above it.
DROP PROCEDURE IF EXISTS fencing_lease_acquire;
CREATE PROCEDURE fencing_lease_acquire(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128), IN shares BOOLEAN,
    IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE closed BIGINT;
    DECLARE noticed BIGINT;
    DECLARE mark BIGINT;
    DECLARE floor BIGINT;
    DECLARE home BIGINT;
    DECLARE last_token BIGINT;
    DECLARE last_owner VARBINARY(128);
    DECLARE ends BIGINT;
    DECLARE allowed BIGINT;
    DECLARE noted BIGINT;
    DECLARE others MEDIUMBLOB;
    DECLARE draining BIGINT;
    DECLARE drained BIGINT;
    DECLARE in_parts BOOLEAN;
    DECLARE joins BOOLEAN;
    DECLARE locked BOOLEAN DEFAULT FALSE;
    DECLARE granted BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    looking: LOOP
        IF locked THEN
            SELECT token, owner, expires_at, closed_for, clock_anomaly_since, parts, draining_since, draining_until
            INTO last_token, last_owner, ends, allowed, noted, others, draining, drained
            FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
        ELSE
            SELECT token, owner, expires_at, closed_for, clock_anomaly_since, parts, draining_since, draining_until
            INTO last_token, last_owner, ends, allowed, noted, others, draining, drained
            FROM fencing_leases WHERE resource = the_resource;
        END IF;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        SET in_parts = COALESCE(last_owner = 'shared' AND others IS NOT NULL, FALSE);
        -- By hand a row may be closed to those who share as well: it has no `closed_for` then.
        SET joins = shares AND in_parts AND allowed IS NOT NULL;
        SET noticed = IF(joins, noted, IF(ends > present + allowed, LEAST(COALESCE(noted, present), present), NULL));
        SET closed = CASE
            WHEN shares AND draining <= present AND drained > present THEN drained
            WHEN joins THEN 0
            ELSE COALESCE(noticed + allowed, ends)
        END;
        IF locked OR (closed > present AND noticed <=> noted) THEN
            LEAVE looking;
        END IF;
        SELECT token INTO mark FROM fencing_marks_base WHERE resource = the_resource;
        SELECT token, server INTO floor, home FROM fencing_floor;
        IF floor IS NULL THEN
            SIGNAL SQLSTATE 'ZF500' SET MESSAGE_TEXT = 'fencing: fencing_floor has no row';
        END IF;
        IF NOT home <=> @@GLOBAL.server_id THEN
            CALL fencing_failed_over();
            SELECT token INTO floor FROM fencing_floor;
        END IF;
        COMMIT AND NO CHAIN NO RELEASE;
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
        START TRANSACTION;
        -- Locks the row, and first creates it without a term if it is missing: to read a
        -- missing row FOR UPDATE shares the gap with others, and then neither can insert.
        INSERT INTO fencing_leases (resource, token, owner, expires_at)
        VALUES (the_resource, GREATEST(COALESCE(mark, 0), floor) + 1, the_owner, 0)
        ON DUPLICATE KEY UPDATE token = token;
        SET locked = TRUE;
    END LOOP;
    IF closed > present THEN
        IF NOT noticed <=> noted THEN
            UPDATE fencing_leases SET clock_anomaly_since = noticed WHERE resource = the_resource;
        END IF;
    ELSE
        SET joins = joins AND ends > present;
        SET granted = CASE
            WHEN last_owner = the_owner AND allowed IS NULL OR joins AND COALESCE(mark, floor) <= last_token
                THEN last_token
            ELSE GREATEST(last_token, COALESCE(mark, 0), floor) + 1
        END;
        SET allowed = IF(joins, GREATEST(allowed, lasting * 1000), lasting * 1000);
        SET ends = present + lasting * 1000, others = IF(joins, others, NULL);
        IF shares THEN
            CALL fencing_lease_parts(
                others, LEFT(the_owner, 32), ' ', present + lasting * 1000, present, present + allowed, ends);
        END IF;
        UPDATE fencing_leases
        SET token = granted, owner = IF(shares, 'shared', the_owner), expires_at = ends,
            closed_for = allowed, clock_anomaly_since = NULL, parts = others,
            draining_since = IF(shares, draining, NULL), draining_until = IF(shares, drained, NULL)
        WHERE resource = the_resource;
    END IF;
    CALL fencing_lease_close(TRUE);
    -- After the commit: the answer is on disk, if the server's settings say so.
    SELECT granted, (closed - present + 999) DIV 1000 AS remaining, in_parts AS shared,
        IF(in_parts, LEFT(RIGHT(others, 49), 32), last_owner) AS holder;
END;

-- fencing_lease_renew(resource, owner, token, lasting, patience): closes the row, or keeps the part, for as long from
-- now on. Returns 1, or 0 if the lease is over. One that was released stays released, whatever was still on its way.
DROP PROCEDURE IF EXISTS fencing_lease_renew;
CREATE PROCEDURE fencing_lease_renew(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(128),
    IN the_token BIGINT, IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE last_token BIGINT;
    DECLARE last_owner VARBINARY(128);
    DECLARE ends BIGINT;
    DECLARE allowed BIGINT;
    DECLARE others MEDIUMBLOB;
    DECLARE in_parts BOOLEAN;
    DECLARE own BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    SELECT token, owner, expires_at, closed_for, parts INTO last_token, last_owner, ends, allowed, others
    FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
    SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SET in_parts = COALESCE(last_owner = 'shared' AND LOCATE(CONCAT(LEFT(the_owner, 32), ' '), others) > 0, FALSE);
    SET own = COALESCE(ends <> 0 AND (in_parts OR last_owner = the_owner AND last_token = the_token), FALSE);
    IF own THEN
        SET allowed = IF(in_parts, GREATEST(COALESCE(allowed, 0), lasting * 1000), lasting * 1000);
        SET ends = present + lasting * 1000;
        IF in_parts THEN
            CALL fencing_lease_parts(
                others, LEFT(the_owner, 32), ' ', present + lasting * 1000, present, present + allowed, ends);
        END IF;
        UPDATE fencing_leases
        SET expires_at = ends, closed_for = allowed, clock_anomaly_since = NULL, parts = IF(in_parts, others, NULL)
        WHERE resource = the_resource;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT own AS renewed;
END;

-- fencing_lease_release(resource, owner, rest, patience): frees the row, or takes the part off. What is released early
-- stays closed for the rest, under a name by which no renewal that is still on its way finds it, and a second release of
-- the row changes nothing. Returns 2 if the row is free now, 1 if it is closed still, by others or for the rest, or was
-- released early before, and 0 if the lease was over.
DROP PROCEDURE IF EXISTS fencing_lease_release;
CREATE PROCEDURE fencing_lease_release(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(127),
    IN rest BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE present BIGINT;
    DECLARE last_owner VARBINARY(128);
    DECLARE ends BIGINT;
    DECLARE allowed BIGINT;
    DECLARE others MEDIUMBLOB;
    DECLARE place BIGINT;
    DECLARE own_end BIGINT;
    DECLARE released BIGINT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL fencing_lease_close(FALSE);
        RESIGNAL;
    END;
    CALL fencing_lease_open(patience);
    -- The row of another owner is only read.
    SELECT owner, LOCATE(LEFT(the_owner, 32), parts) INTO last_owner, place
    FROM fencing_leases WHERE resource = the_resource;
    IF last_owner IN (the_owner, CONCAT(the_owner, '.')) OR place > 0 THEN
        COMMIT AND NO CHAIN NO RELEASE;
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
        START TRANSACTION;
        SELECT owner, expires_at, COALESCE(closed_for, 1000000000000000), parts, LOCATE(LEFT(the_owner, 32), parts)
        INTO last_owner, ends, allowed, others, place
        FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        SET own_end = CAST(SUBSTRING(others, place + 33, 16) AS SIGNED);
        IF last_owner = CONCAT(the_owner, '.') THEN
            SET released = 1;
        ELSEIF last_owner = the_owner AND (ends > present OR ends = 0) THEN
            SET released = IF(rest > 0, 1, 2);
            UPDATE fencing_leases
            SET owner = IF(rest > 0, CONCAT(the_owner, '.'), the_owner),
                expires_at = IF(rest > 0, LEAST(expires_at, present + rest * 1000), 0)
            WHERE resource = the_resource;
        ELSEIF last_owner = 'shared' AND place > 0 AND ends > present AND own_end > present THEN
            CALL fencing_lease_parts(others, LEFT(the_owner, 32), '.',
                IF(rest > 0, LEAST(own_end, present + rest * 1000), NULL), present, present + allowed, ends);
            SET released = IF(ends > 0, 1, 2);
            UPDATE fencing_leases SET expires_at = ends, clock_anomaly_since = NULL, parts = others
            WHERE resource = the_resource;
        END IF;
    END IF;
    CALL fencing_lease_close(TRUE);
    SELECT released;
END;

-- fencing_lease_drain(resource, lasting, patience): keeps others from joining those who share the row, for 20 s at most.
-- Then they may join for as long, however many wait to hold it alone.
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
