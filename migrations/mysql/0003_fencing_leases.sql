-- The leases of SqlLock: for each resource the last one granted, and when it expires by
-- this server's clock, in microseconds since 1970 (UTC); 0 is released.
-- `closed_for` is how long a grant or a renewal may close the row. If the clock has been set back, the
-- row seems to be closed for longer: `odd_since` is when that was noticed first, and the row is free
-- when it has been so for `closed_for` since then. A renewal puts it right.
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
    owner VARBINARY(64) NOT NULL,
    expires_at BIGINT NOT NULL,
    closed_for BIGINT,
    odd_since BIGINT
) ENGINE = InnoDB;

-- The three procedures of SqlLock. Each is a transaction of its own, whatever `autocommit`
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

-- fencing_lease_acquire(resource, owner, milliseconds, patience): returns the token, if the
-- row was free or had expired; or for how many milliseconds it is still closed.
DROP PROCEDURE IF EXISTS fencing_lease_acquire;
CREATE PROCEDURE fencing_lease_acquire(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(64),
    IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE row_patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
    DECLARE table_patience BIGINT DEFAULT @@SESSION.lock_wait_timeout;
    DECLARE present BIGINT;
    DECLARE closed BIGINT;
    DECLARE allowed BIGINT;
    DECLARE noticed BIGINT;
    DECLARE odd BOOLEAN;
    DECLARE corrected BOOLEAN;
    DECLARE mark BIGINT;
    DECLARE last_token BIGINT;
    DECLARE last_owner VARBINARY(64);
    DECLARE granted BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = row_patience,
            SESSION lock_wait_timeout = table_patience;
        RESIGNAL;
    END;
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = LEAST(row_patience, patience),
        SESSION lock_wait_timeout = LEAST(table_patience, patience);
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    START TRANSACTION;

    -- A row that is closed is only read: that needs no wait for its lock.
    SELECT expires_at, closed_for, odd_since INTO closed, allowed, noticed
    FROM fencing_leases WHERE resource = the_resource;
    SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    SET odd = COALESCE(closed > present + allowed, FALSE);
    SET corrected = NOT odd AND noticed IS NOT NULL;
    IF odd AND noticed <= present THEN
        SET closed = noticed + allowed, odd = FALSE;
    END IF;
    IF closed IS NULL OR closed <= present OR odd OR corrected THEN
        -- The mark may be above the row's token if the tokens came from elsewhere before,
        -- or the row was lost.
        SELECT token INTO mark FROM fencing_marks_base WHERE resource = the_resource;
        -- Locks the row, and first creates it without an owner if it is missing: to read a
        -- missing row FOR UPDATE shares the gap with others, and then neither can insert.
        INSERT INTO fencing_leases (resource, token, owner, expires_at)
        VALUES (the_resource, COALESCE(mark, 0) + 1, '', 0)
        ON DUPLICATE KEY UPDATE token = token;
        -- The row as it is now, whatever the snapshot is.
        SELECT token, owner, expires_at, closed_for, odd_since
        INTO last_token, last_owner, closed, allowed, noticed
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
                closed_for = lasting * 1000, odd_since = NULL
            WHERE resource = the_resource;
        END IF;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;

    SET SESSION innodb_lock_wait_timeout = row_patience,
        SESSION lock_wait_timeout = table_patience;
    -- After the commit: the answer is on disk, if the server's settings say so.
    SELECT granted, (closed - present + 999) DIV 1000 AS remaining;
END;

-- fencing_lease_renew(resource, owner, token, milliseconds, patience): returns two numbers.
-- The first is 1 if the row is closed for as long from now on, the second is 1 if another
-- owner or token has it. A released row stays released, whatever was still on its way.
DROP PROCEDURE IF EXISTS fencing_lease_renew;
CREATE PROCEDURE fencing_lease_renew(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(64),
    IN the_token BIGINT, IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE row_patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
    DECLARE table_patience BIGINT DEFAULT @@SESSION.lock_wait_timeout;
    DECLARE last_token BIGINT;
    DECLARE last_owner VARBINARY(64);
    DECLARE closed BIGINT;
    DECLARE own BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = row_patience,
            SESSION lock_wait_timeout = table_patience;
        RESIGNAL;
    END;
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = LEAST(row_patience, patience),
        SESSION lock_wait_timeout = LEAST(table_patience, patience);
    START TRANSACTION;
    SELECT token, owner, expires_at INTO last_token, last_owner, closed
    FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
    SET own = last_owner = the_owner AND last_token = the_token;
    IF own AND closed <> 0 THEN
        UPDATE fencing_leases SET expires_at =
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + lasting * 1000,
            closed_for = lasting * 1000, odd_since = NULL
        WHERE resource = the_resource;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = row_patience,
        SESSION lock_wait_timeout = table_patience;
    SELECT COALESCE(own AND closed <> 0, FALSE) AS renewed, COALESCE(NOT own, FALSE) AS superseded;
END;

-- fencing_lease_release(resource, owner, patience): returns 1 if the row was this owner's and
-- closed until now, or this owner had released it before.
DROP PROCEDURE IF EXISTS fencing_lease_release;
CREATE PROCEDURE fencing_lease_release(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(64), IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE row_patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
    DECLARE table_patience BIGINT DEFAULT @@SESSION.lock_wait_timeout;
    DECLARE last_owner VARBINARY(64);
    DECLARE closed BIGINT;
    DECLARE present BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = row_patience,
            SESSION lock_wait_timeout = table_patience;
        RESIGNAL;
    END;
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = LEAST(row_patience, patience),
        SESSION lock_wait_timeout = LEAST(table_patience, patience);
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    START TRANSACTION;
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
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = row_patience,
        SESSION lock_wait_timeout = table_patience;
    SELECT COALESCE(closed > present OR closed = 0, FALSE) AS released;
END;

-- fencing_lease_shorten(resource, owner, milliseconds, patience): releases as above, but leaves the row
-- closed for so long, if it is not free before. Returns what fencing_lease_release does. The owner's
-- name gets a mark: a renewal that is still on its way must not find it.
DROP PROCEDURE IF EXISTS fencing_lease_shorten;
CREATE PROCEDURE fencing_lease_shorten(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(63),
    IN rest BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE row_patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
    DECLARE table_patience BIGINT DEFAULT @@SESSION.lock_wait_timeout;
    DECLARE last_owner VARBINARY(64);
    DECLARE closed BIGINT;
    DECLARE present BIGINT;
    DECLARE released BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = row_patience,
            SESSION lock_wait_timeout = table_patience;
        RESIGNAL;
    END;
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = LEAST(row_patience, patience),
        SESSION lock_wait_timeout = LEAST(table_patience, patience);
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    START TRANSACTION;
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
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = row_patience,
        SESSION lock_wait_timeout = table_patience;
    SELECT released;
END;
