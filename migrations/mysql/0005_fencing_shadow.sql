-- Shadow mode: what the fence would refuse is let through, and kept here. For each place (a table, or
-- `admit`), resource and cause: in how many transactions, and the last of them. What a transaction
-- rolls back it takes back here as well, for it has written nothing. There are 1000 rows, and then
-- one for each place and cause with an empty name; and more where transactions met at one row, up to
-- 2000 in all.
-- To begin anew: DELETE FROM fencing_refusals.
CREATE TABLE IF NOT EXISTS fencing_refusals (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    place VARCHAR(200) CHARACTER SET utf8mb4 NOT NULL,
    resource VARBINARY(255) NOT NULL,
    cause VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL,
    times BIGINT NOT NULL,
    writer VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
    message VARCHAR(512) CHARACTER SET utf8mb4 NOT NULL,
    first_at DATETIME(6) NOT NULL,
    last_at DATETIME(6) NOT NULL,
    KEY fencing_refusals_of (resource)
) ENGINE = InnoDB;

-- fencing_note(place, resource, cause, message): keeps a refusal, once for each statement. It waits
-- for nobody: a row that another transaction has changed is left alone, and there will be two. Of
-- several rows it takes the newest, which is the least likely to be another transaction's. It
-- looks without a lock, and locks one row by its number: a search with locks would lock the gaps,
-- and two of them would be in each other's way.
--
-- With innodb_snapshot_isolation a lock on a row that is newer than the snapshot ends the
-- transaction (1020). Then it takes a new row each time, until there are 1000.
--
-- @fencing_noted: the last that was noted, and when. A statement that writes a million rows
-- would else change one row of this table a million times.
DROP PROCEDURE IF EXISTS fencing_snapshots;
CREATE PROCEDURE fencing_snapshots(OUT isolated BOOLEAN)
    READS SQL DATA
    SQL SECURITY INVOKER
BEGIN
    SET isolated = FALSE;
END;
SET @fencing_text = 'DO 0' /*M!100602 , @fencing_text = IF(
    EXISTS (SELECT 1 FROM information_schema.system_variables
        WHERE variable_name = 'INNODB_SNAPSHOT_ISOLATION'),
    'CREATE OR REPLACE PROCEDURE fencing_snapshots(OUT isolated BOOLEAN)
        READS SQL DATA
        SQL SECURITY INVOKER
    BEGIN
        SET isolated = @@SESSION.innodb_snapshot_isolation;
    END',
    'DO 0') */;
PREPARE fencing_text FROM @fencing_text;
EXECUTE fencing_text;
DEALLOCATE PREPARE fencing_text;

DROP PROCEDURE IF EXISTS fencing_note;
CREATE PROCEDURE fencing_note(
    IN the_place VARCHAR(200) CHARACTER SET utf8mb4, IN the_resource VARBINARY(1024),
    IN the_cause VARCHAR(20) CHARACTER SET utf8mb4, IN the_message TEXT CHARACTER SET utf8mb4)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
note: BEGIN
    DECLARE line BIGINT;
    DECLARE found BIGINT;
    DECLARE kept BIGINT;
    DECLARE isolated BOOLEAN;
    DECLARE name VARBINARY(255) DEFAULT LEFT(COALESCE(the_resource, ''), 255);
    DECLARE this VARBINARY(64) DEFAULT SHA1(CONCAT_WS(' ', the_place, the_cause, HEX(name)));
    DECLARE of_all VARBINARY(64) DEFAULT SHA1(CONCAT_WS(' ', the_place, the_cause));
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    IF @fencing_noted_at = NOW(6) + 0
        AND (LOCATE(this, @fencing_noted) > 0 OR LOCATE(of_all, @fencing_noted) > 0)
    THEN
        LEAVE note;
    END IF;
    SELECT id INTO line FROM fencing_refusals
    WHERE resource = name AND place = the_place AND cause = the_cause ORDER BY id DESC LIMIT 1;
    CALL fencing_snapshots(isolated);
    -- Not SET kept = (SELECT ...): where a session runs that again, MariaDB locks what it reads.
    SELECT COUNT(*) INTO kept FROM fencing_refusals;
    IF line IS NULL AND kept >= 1000 THEN
        SET name = '', this = of_all;
        SELECT id INTO line FROM fencing_refusals
        WHERE resource = name AND place = the_place AND cause = the_cause ORDER BY id DESC LIMIT 1;
    END IF;
    SET @fencing_noted =
        LEFT(CONCAT(this, IF(@fencing_noted_at = NOW(6) + 0, @fencing_noted, '')), 2000),
        @fencing_noted_at = NOW(6) + 0;
    IF line IS NOT NULL AND NOT isolated THEN
        SELECT id INTO found FROM fencing_refusals WHERE id = line FOR UPDATE SKIP LOCKED;
    END IF;
    IF found IS NOT NULL THEN
        UPDATE fencing_refusals
        SET times = times + 1, writer = LEFT(USER(), 255), message = LEFT(the_message, 512),
            last_at = UTC_TIMESTAMP(6)
        WHERE id = found;
    ELSEIF line IS NULL OR kept < IF(isolated, 1000, 2000) THEN
        INSERT INTO fencing_refusals
            (place, resource, cause, times, writer, message, first_at, last_at)
        VALUES (the_place, name, the_cause, 1, LEFT(USER(), 255), LEFT(the_message, 512),
            UTC_TIMESTAMP(6), UTC_TIMESTAMP(6));
    END IF;
END;

-- Who holds the row of a resource's hash may raise its mark in shadow mode. The others let it be:
-- two who create one mark would wait for each other, and a trigger cannot catch what comes of that.
CREATE TABLE IF NOT EXISTS fencing_turns (hash INT NOT NULL PRIMARY KEY) ENGINE = InnoDB;
INSERT IGNORE INTO fencing_turns (hash)
WITH RECURSIVE hashes (hash) AS (SELECT 0 UNION ALL SELECT hash + 1 FROM hashes WHERE hash < 511)
SELECT hash FROM hashes;

-- fencing_shadow(resource, token, place, refused): as fencing_admit, and refuses nothing. `refused` is
-- NULL if the token would be admitted, or the cause, a space, and the message. NULL for the
-- token stands for none. It raises the mark, if it need not wait for others in shadow mode, and holds
-- nobody else up: the cause `waits` says that the write would have waited for another transaction,
-- and perhaps have been refused after that. What ends the transaction is not hidden: a deadlock,
-- and, with innodb_snapshot_isolation, a mark that is newer than the snapshot (1020). A name of a resource has
-- 255 bytes at most, so the first 1024 say enough of a longer one.
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
    DECLARE cause VARCHAR(20) CHARACTER SET utf8mb4;
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SET refused = NULL;
    BEGIN
        DECLARE EXIT HANDLER FOR SQLSTATE 'ZF412'
        BEGIN
            GET DIAGNOSTICS CONDITION 1 words = MESSAGE_TEXT;
            SET cause = 'stale';
        END;
        DECLARE EXIT HANDLER FOR SQLSTATE 'ZF400'
        BEGIN
            GET DIAGNOSTICS CONDITION 1 words = MESSAGE_TEXT;
            SET cause = 'malformed';
        END;
        DECLARE EXIT HANDLER FOR 1205, 1213, 1020 RESIGNAL;
        DECLARE EXIT HANDLER FOR SQLEXCEPTION
        BEGIN
            GET DIAGNOSTICS CONDITION 1 words = MESSAGE_TEXT;
            SET cause = 'failed', words = CONCAT('fencing: ', COALESCE(words, ''), ', resource ',
                COALESCE(CONVERT(the_resource USING utf8mb4), 'NULL'));
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
-- shadow mode. It refuses nothing. A token of more than 64 bytes is malformed.
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
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE EXIT HANDLER FOR SQLSTATE 'ZF428'
    BEGIN
        GET DIAGNOSTICS CONDITION 1 words = MESSAGE_TEXT;
        CALL fencing_note(the_place, the_resource, 'unpresented', words);
    END;
    DECLARE EXIT HANDLER FOR SQLSTATE 'ZF400'
    BEGIN
        GET DIAGNOSTICS CONDITION 1 words = MESSAGE_TEXT;
        CALL fencing_note(the_place, the_resource, 'malformed', words);
    END;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020 RESIGNAL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        GET DIAGNOSTICS CONDITION 1 words = MESSAGE_TEXT;
        CALL fencing_note(the_place, the_resource, 'failed', words);
    END;
    CALL fencing_presented(the_resource, the_token, digits);
    CALL fencing_shadow(the_resource, CAST(digits AS UNSIGNED), the_place, refused);
END;
