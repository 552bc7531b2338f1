-- The leases of SqlLock: for each resource the last one granted, and until when it lasts
-- by this server's clock, in microseconds since 1970 (UTC); 0 is released.
-- Never delete a row: the next token of its resource would start again at 1, or at its
-- mark, and a stale writer that has not yet reached the storage would pass. For millions
-- of resources a row costs about 150 bytes; those that will never be locked again, under
-- any token that may still be on its way to a storage, may go.
-- To take a lease from a holder that hangs: SET expires_at = 0.
-- VARBINARY compares bytes; a collation would take R for r, and a name with a space at
-- its end for the one without. InnoDB has the row locks that a lease is granted under.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner VARBINARY(64) NOT NULL,
    expires_at BIGINT NOT NULL
) ENGINE = InnoDB;

-- The three procedures of SqlLock. Each is a transaction of its own, whatever `autocommit`
-- says, that locks the row, reads the clock, decides and commits: no client stands between
-- two of these steps and can be stopped there. They end what the session had open, and
-- leave its settings as they were. Where one fails it leaves no transaction behind, and so
-- no lock.
--
-- Each statement of a procedure has its own time, so UTC_TIMESTAMP(6) after the lock is a
-- time after the wait. It knows no time zone. (In one UPDATE it would be the time of the
-- begin, before the wait; SYSDATE(6) is later, but local, and an hour has two readings when
-- the clocks go back.)
--
-- None waits in the server for much longer than its client does: `patience`, in seconds.
-- Under SERIALIZABLE the reads without a lock would lock, and wait for whoever writes.

-- fencing_lease_take(resource, owner, milliseconds, patience): the token, if the row was
-- free or had expired; or for how many milliseconds it is closed.
DROP PROCEDURE IF EXISTS fencing_lease_take;
CREATE PROCEDURE fencing_lease_take(
    IN the_resource VARBINARY(255), IN the_owner VARBINARY(64),
    IN lasting BIGINT, IN patience BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE row_patience BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
    DECLARE table_patience BIGINT DEFAULT @@SESSION.lock_wait_timeout;
    DECLARE present BIGINT;
    DECLARE closed BIGINT;
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

    -- A row that is closed is only read: nobody waits for its lock to be told so.
    SELECT expires_at INTO closed FROM fencing_leases WHERE resource = the_resource;
    SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    IF closed IS NULL OR closed <= present THEN
        -- The mark may be above the row's token if the tokens came from elsewhere before,
        -- or the row was lost.
        SELECT token INTO mark FROM fencing_marks WHERE resource = the_resource;
        -- Locks the row, and makes it first where there is none, without an owner: a read
        -- FOR UPDATE of no row shares the gap with others, and then neither can insert.
        INSERT INTO fencing_leases (resource, token, owner, expires_at)
        VALUES (the_resource, COALESCE(mark, 0) + 1, '', 0)
        ON DUPLICATE KEY UPDATE token = token;
        -- The row as it is now, whatever the snapshot is.
        SELECT token, owner, expires_at INTO last_token, last_owner, closed
        FROM fencing_leases WHERE resource = the_resource FOR UPDATE;
        SET present = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        IF closed <= present THEN
            SET granted = last_token;
            IF last_owner <> '' THEN
                SET granted = GREATEST(last_token, COALESCE(mark, 0)) + 1;
            END IF;
            UPDATE fencing_leases
            SET token = granted, owner = the_owner, expires_at = present + lasting * 1000
            WHERE resource = the_resource;
        END IF;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;

    SET SESSION innodb_lock_wait_timeout = row_patience,
        SESSION lock_wait_timeout = table_patience;
    -- After the commit: what is answered is on disk, as far as the server's settings go.
    SELECT granted, (closed - present + 999) DIV 1000 AS remaining;
END;

-- fencing_lease_extend(resource, owner, token, milliseconds, patience): 1 if the row is
-- closed for as long from now on; and 1 if another has come. A released row stays
-- released, whatever was still on its way.
DROP PROCEDURE IF EXISTS fencing_lease_extend;
CREATE PROCEDURE fencing_lease_extend(
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
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + lasting * 1000
        WHERE resource = the_resource;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = row_patience,
        SESSION lock_wait_timeout = table_patience;
    SELECT COALESCE(own AND closed <> 0, FALSE) AS extended, COALESCE(NOT own, FALSE) AS followed;
END;

-- fencing_lease_free(resource, owner, patience): 1 if the row was this owner's and closed
-- until now, or had been released by this owner before.
DROP PROCEDURE IF EXISTS fencing_lease_free;
CREATE PROCEDURE fencing_lease_free(
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
    -- A row of another's is only read.
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
    SELECT COALESCE(closed > present OR closed = 0, FALSE) AS freed;
END;
