-- Shadow mode: the fence refuses nothing, and records the first refusal of each place (a table, or `admit`),
-- resource, cause and writer here. A transaction that rolls back, and so has written nothing, removes its rows. From
-- 1000 rows on the name of the resource is empty, and from 2000 on no row is added. To start over:
-- DELETE FROM fencing_refusals.
CREATE TABLE IF NOT EXISTS fencing_refusals (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    place VARCHAR(200) CHARACTER SET utf8mb4 NOT NULL,
    resource VARBINARY(255) NOT NULL,
    cause VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL,
    writer VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
    message VARCHAR(512) CHARACTER SET utf8mb4 NOT NULL,
    first_at DATETIME(6) NOT NULL,
    KEY fencing_refusals_of (resource)
) ENGINE = InnoDB;

-- For reads in a trigger, like fencing_marks_shared: by the table's own name they would lock what they read.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW fencing_refusals_kept AS
    SELECT place, resource, cause, writer FROM fencing_refusals AS kept;

-- fencing_note(place, resource, cause, message): records a refusal, if it is new. It changes no row, and so waits for
-- nobody: concurrent transactions may add the same row.
DROP PROCEDURE IF EXISTS fencing_note;
CREATE PROCEDURE fencing_note(
    IN the_place VARCHAR(200) CHARACTER SET utf8mb4, IN the_resource VARBINARY(1024),
    IN the_cause VARCHAR(20) CHARACTER SET utf8mb4, IN the_message TEXT CHARACTER SET utf8mb4)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE kept BIGINT;
    DECLARE name VARBINARY(255) DEFAULT LEFT(COALESCE(the_resource, 'NULL'), 255);
    DECLARE who VARCHAR(255) CHARACTER SET utf8mb4 DEFAULT LEFT(USER(), 255);
    -- Not SET kept = (SELECT ...): when a session runs that again, MariaDB locks what it reads.
    SELECT COUNT(*) INTO kept FROM fencing_refusals_kept
    WHERE resource IN (name, '') AND place = the_place AND cause = the_cause AND writer = who;
    IF kept = 0 THEN
        SELECT COUNT(*) INTO kept FROM fencing_refusals_kept;
        IF kept < 2000 THEN
            INSERT INTO fencing_refusals (place, resource, cause, writer, message, first_at)
            VALUES (the_place, IF(kept < 1000, name, ''), the_cause, who, LEFT(the_message, 512),
                UTC_TIMESTAMP(6));
        END IF;
    END IF;
END;

-- A transaction raises a mark in shadow mode only if it has locked the row of the resource's hash: two that
-- create one mark would wait for each other, and a trigger cannot catch the deadlock.
CREATE TABLE IF NOT EXISTS fencing_turns (hash INT NOT NULL PRIMARY KEY) ENGINE = InnoDB;
INSERT IGNORE INTO fencing_turns (hash)
WITH RECURSIVE hashes (hash) AS (SELECT 0 UNION ALL SELECT hash + 1 FROM hashes WHERE hash < 511)
SELECT hash FROM hashes;

-- fencing_shadow(resource, token, place, refused): as fencing_admit, but refuses nothing. `refused` is
-- NULL if the token would be admitted, or the cause, a space, and the message. A NULL
-- token: none was presented. It raises the mark, unless it would have to wait for others in shadow mode: then the
-- cause is `waits`, because the write would have waited for another transaction,
-- and perhaps have been refused after that. Errors that end the transaction are not hidden: a deadlock,
-- and, with innodb_snapshot_isolation, a mark that is newer than the snapshot (1020). A valid name has
-- 255 bytes at most, so 1024 are enough of a longer one.
DROP PROCEDURE IF EXISTS fencing_shadow;
CREATE PROCEDURE fencing_shadow(
    IN the_name LONGBLOB, IN the_token BIGINT,
    IN the_place VARCHAR(200) CHARACTER SET utf8mb4, OUT refused TEXT CHARACTER SET utf8mb4)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE the_resource VARBINARY(1024) DEFAULT LEFT(the_name, 1024);
    DECLARE seen BIGINT;
    DECLARE held BIGINT;
    DECLARE turn INT;
    DECLARE state VARCHAR(5) CHARACTER SET utf8mb4;
    DECLARE cause VARCHAR(20) CHARACTER SET utf8mb4;
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SET refused = NULL;
    BEGIN
        DECLARE EXIT HANDLER FOR 1205, 1213, 1020 RESIGNAL;
        DECLARE EXIT HANDLER FOR SQLEXCEPTION
        BEGIN
            GET DIAGNOSTICS CONDITION 1 state = RETURNED_SQLSTATE, words = MESSAGE_TEXT;
            SET cause = CASE state WHEN 'ZF412' THEN 'stale' WHEN 'ZF400' THEN 'malformed' ELSE 'failed' END;
            IF cause = 'failed' THEN
                SET words = CONCAT('fencing: ', COALESCE(words, ''), ', resource ',
                    COALESCE(CONVERT(the_resource USING utf8mb4), 'NULL'));
            END IF;
        END;
        SELECT token INTO seen FROM fencing_marks_base WHERE resource = the_resource;
        IF the_token IS NULL THEN
            SET cause = 'unpresented', words = CONCAT('fencing: no token presented, high water ',
                COALESCE(seen, 'none'), ', resource ',
                COALESCE(CONVERT(the_resource USING utf8mb4), 'NULL'));
        ELSEIF seen > the_token THEN
            CALL fencing_hold(the_resource, the_token, seen);
        ELSEIF seen IS NULL OR seen < the_token THEN
            SELECT hash INTO turn FROM fencing_turns
            WHERE hash = CRC32(COALESCE(the_resource, '')) % 512 FOR UPDATE SKIP LOCKED;
            IF turn IS NOT NULL AND seen < the_token THEN
                SELECT token INTO held FROM fencing_marks_base
                WHERE resource = the_resource FOR UPDATE SKIP LOCKED;
            END IF;
            IF turn IS NULL OR held IS NULL AND seen IS NOT NULL THEN
                SET cause = 'waits', words = CONCAT('fencing: token ', the_token,
                    ' would have waited, resource ', CONVERT(the_resource USING utf8mb4));
            ELSE
                CALL fencing_hold(the_resource, the_token, held);
            END IF;
        END IF;
    END;
    IF cause IS NOT NULL THEN
        SET refused = CONCAT(cause, ' ', words);
        CALL fencing_note(the_place, the_resource, cause, words);
    END IF;
END;

-- fencing_check_shadow(resource, token, place): as fencing_check, for the triggers of a table in
-- shadow mode; it refuses nothing. A token of more than 64 bytes is malformed.
DROP PROCEDURE IF EXISTS fencing_check_shadow;
CREATE PROCEDURE fencing_check_shadow(
    IN the_name LONGBLOB, IN presented LONGBLOB,
    IN the_place VARCHAR(200) CHARACTER SET utf8mb4)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE the_resource VARBINARY(1024) DEFAULT LEFT(the_name, 1024);
    DECLARE the_token VARBINARY(64) DEFAULT LEFT(presented, 64);
    DECLARE digits VARBINARY(1024);
    DECLARE refused TEXT CHARACTER SET utf8mb4;
    DECLARE state VARCHAR(5) CHARACTER SET utf8mb4;
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020 RESIGNAL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        GET DIAGNOSTICS CONDITION 1 state = RETURNED_SQLSTATE, words = MESSAGE_TEXT;
        CALL fencing_note(the_place, the_resource, CASE state WHEN 'ZF428' THEN 'unpresented'
            WHEN 'ZF400' THEN 'malformed' ELSE 'failed' END, words);
    END;
    CALL fencing_presented(the_resource, the_token, digits);
    CALL fencing_shadow(the_resource, CAST(digits AS UNSIGNED), the_place, refused);
END;
