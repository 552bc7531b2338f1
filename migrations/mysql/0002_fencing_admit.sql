-- fencing_admit(resource, token): compares the token with the mark of the resource and
-- raises the mark to it, in the caller's transaction, and locks it until that ends.
-- Equal passes. Errors: ZF412 the token is stale, ZF400 the token or the name is not valid,
-- ZF500 the mark is not a valid token.
--
-- The first read takes no lock, so that a stale token delays nobody; it only chooses the way. The last read decides:
-- it locks the newest row, whatever the transaction's snapshot is. SHARE admits equal tokens side by side, and a raise
-- waits until they have ended.
--
-- Outside of a transaction the lock would end with the call: that is an error.
--
-- `xa`: XA PREPARE releases shared locks, so an XA transaction writes the row. XA END fails with 1397 (unknown name) in
-- such a transaction, and with 1399 elsewhere.
DROP PROCEDURE IF EXISTS fencing_admit;
CREATE PROCEDURE fencing_admit(IN the_resource VARBINARY(1024), IN the_token BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE seen BIGINT;
    DECLARE xa BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    /*M!100000 IF @@in_transaction = 0 AND @@autocommit = 1 THEN
        SIGNAL SQLSTATE 'ZF400' SET MESSAGE_TEXT =
            'fencing: no transaction is open: an admission ends with its transaction: START TRANSACTION first';
    END IF; */
    BEGIN
        DECLARE CONTINUE HANDLER FOR 1397 SET xa = TRUE;
        DECLARE CONTINUE HANDLER FOR 1399 BEGIN END;
        XA END 'fencing_admit';
    END;
    SELECT token INTO seen FROM fencing_marks_base WHERE resource = the_resource;
    IF xa AND seen = the_token THEN
        UPDATE fencing_marks_base SET admissions = admissions + 1
        WHERE resource = the_resource AND token = the_token;
    END IF;
    CALL fencing_hold(the_resource, the_token, seen);
    -- The mark may have risen to the token since the first read.
    IF xa THEN
        UPDATE fencing_marks_base SET admissions = admissions + 1
        WHERE resource = the_resource AND token = the_token;
    END IF;
END;

-- fencing_count(resource): on a Galera cluster, changes the row of the mark in every transaction
-- that is admitted. There a lock holds on one node only, and the certification of the commit
-- decides: of two transactions on two nodes that have changed one row, the later one
-- fails, with the error of a deadlock. So equal tokens do not run side by side there.
--
-- A server without Galera may not know wsrep_on, and would refuse a procedure that names it.
DROP PROCEDURE IF EXISTS fencing_count;
CREATE PROCEDURE fencing_count(IN the_resource VARBINARY(1024))
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
END;
SET @fencing_text = 'DO 0' /*M!100602 , @fencing_text = IF(
    EXISTS (SELECT 1 FROM information_schema.system_variables WHERE variable_name = 'WSREP_ON'),
    'CREATE OR REPLACE PROCEDURE fencing_count(IN the_resource VARBINARY(1024))
        MODIFIES SQL DATA
        SQL SECURITY INVOKER
    BEGIN
        IF @@GLOBAL.wsrep_on THEN
            UPDATE fencing_marks_base SET admissions = admissions + 1
            WHERE resource = the_resource;
        END IF;
    END',
    'DO 0') */;
PREPARE fencing_text FROM @fencing_text;
EXECUTE fencing_text;
DEALLOCATE PREPARE fencing_text;

-- fencing_hold(resource, token, seen): the rest of an admission, after the first read of the mark.
--
-- A mark that was seen is raised by UPDATE, and not created: it may have been pruned since, after a newer token had
-- raised it. A transaction that creates a mark shares the floor's row until it ends, and reads its newest version. A
-- prune raises the floor, which waits for these transactions, and only then deletes: so each of them knows of every mark
-- that was deleted. (The INSERT compares as well, for sessions where each statement is a transaction.) On a cluster, a
-- floor that rises on another node ends their transactions.
--
-- `known`: the floor in the snapshot of the transaction. If it has risen since, there may be a mark that the snapshot
-- does not show; a read with a lock finds it, and locks a gap if there is none. If it has not risen, a read without a
-- lock is enough: if it finds a mark, that came after the first read. If this mark must be raised, the caller tries
-- again (1205): the read has fixed the snapshot of a transaction that has just begun, which would miss writes that come
-- while it waits. `gone`: a mark that was seen was deleted, and the snapshot may still show it.
DROP PROCEDURE IF EXISTS fencing_hold;
CREATE PROCEDURE fencing_hold(
    IN the_resource VARBINARY(1024), IN the_token BIGINT, IN seen BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE held BIGINT;
    DECLARE floor BIGINT;
    DECLARE known BIGINT;
    DECLARE gone BOOLEAN DEFAULT FALSE;
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;

    -- Checked here: if the SQL mode is not strict, a longer name would be cut.
    IF the_resource IS NULL OR LENGTH(the_resource) NOT BETWEEN 1 AND 255 THEN
        SIGNAL SQLSTATE 'ZF400'
            SET MESSAGE_TEXT = 'fencing: a resource name has 1 to 255 bytes';
    END IF;
    -- In another character set the same name would have another mark.
    IF NOT (the_resource <=> CAST(CONVERT(the_resource USING utf8mb4) AS BINARY)) THEN
        SIGNAL SQLSTATE 'ZF400'
            SET MESSAGE_TEXT = 'fencing: the resource name is not UTF-8: SET NAMES utf8mb4';
    END IF;
    IF the_token IS NULL OR the_token NOT BETWEEN 1 AND 999999999999999 THEN
        SIGNAL SQLSTATE 'ZF400'
            SET MESSAGE_TEXT = 'fencing: a token lies between 1 and 999999999999999';
    END IF;

    IF seen > the_token THEN
        SET held = seen;
    ELSE
        looking: LOOP
            IF seen IS NOT NULL THEN
                IF seen < the_token THEN
                    -- Waits for every holder of an older token. A mark below 1 stays, and is
                    -- reported as corrupt.
                    UPDATE fencing_marks_base SET raised_at = UTC_TIMESTAMP(6), token = the_token
                    WHERE resource = the_resource AND token BETWEEN 1 AND the_token - 1;
                END IF;
                CALL fencing_count(the_resource);
                SELECT token INTO held FROM fencing_marks_shared
                WHERE resource = the_resource LOCK IN SHARE MODE;
                IF held IS NOT NULL THEN
                    LEAVE looking;
                END IF;
                SET gone = TRUE;
            END IF;
            SELECT token INTO floor FROM fencing_floor LOCK IN SHARE MODE;
            IF floor < the_token THEN
                INSERT INTO fencing_marks_base (resource, token)
                SELECT the_resource, the_token FROM fencing_floor AS below
                WHERE below.token < the_token LOCK IN SHARE MODE
                ON DUPLICATE KEY UPDATE
                    raised_at = IF(fencing_marks_base.token BETWEEN 1 AND the_token - 1,
                        UTC_TIMESTAMP(6), raised_at),
                    token = IF(fencing_marks_base.token BETWEEN 1 AND the_token - 1,
                        the_token, fencing_marks_base.token);
                CALL fencing_count(the_resource);
                SELECT token INTO held FROM fencing_marks_shared
                WHERE resource = the_resource LOCK IN SHARE MODE;
                IF held IS NULL THEN
                    SELECT token + 1 INTO held FROM fencing_floor WHERE token >= the_token;
                END IF;
                LEAVE looking;
            END IF;
            SET seen = NULL;
            SELECT token INTO known FROM fencing_floor;
            IF gone OR known < floor THEN
                SELECT token INTO seen FROM fencing_marks_shared
                WHERE resource = the_resource LOCK IN SHARE MODE;
            ELSE
                SELECT token INTO seen FROM fencing_marks_base WHERE resource = the_resource;
                IF seen < the_token THEN
                    SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT =
                        'fencing: the mark came meanwhile: run the transaction again';
                ELSEIF seen > the_token THEN
                    SET held = seen;
                    LEAVE looking;
                END IF;
            END IF;
            IF seen IS NULL THEN
                SET held = floor + 1;
                LEAVE looking;
            END IF;
        END LOOP;
    END IF;

    IF held BETWEEN 1 AND the_token - 1 THEN
        -- The first read saw a raise that was rolled back: READ UNCOMMITTED shows it.
        SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT =
            'fencing: the mark went back meanwhile: run the transaction again';
    ELSEIF held IS NULL AND floor IS NULL THEN
        SIGNAL SQLSTATE 'ZF500' SET MESSAGE_TEXT = 'fencing: fencing_floor has no row';
    ELSEIF held IS NULL OR held NOT BETWEEN the_token AND 999999999999999 THEN
        SIGNAL SQLSTATE 'ZF500' SET MESSAGE_TEXT = 'fencing: the mark is not a valid token';
    ELSEIF held > the_token THEN
        SET words = CONCAT('fencing: token ', the_token, ' is stale, high water ', held,
            ', resource ', CONVERT(the_resource USING utf8mb4));
        -- A message has at most 128 characters.
        SET words = IF(CHAR_LENGTH(words) > 128, CONCAT(LEFT(words, 125), '...'), words);
        SIGNAL SQLSTATE 'ZF412' SET MESSAGE_TEXT = words;
    END IF;
END;

-- fencing_check(resource, token): admits what the session has presented, for the
-- triggers of protected tables: @fencing_sequencer, a token together with its resource
-- (`34 docs/a`: the token, one space, the name), which counts for rows of that resource; or
-- @fencing_token, a bare token, which counts for rows of every resource. ZF428: none was
-- presented, or only one of another resource. ZF400: both were presented, or a malformed text.
--
-- The first statement that uses a presented variable clears it, because it outlives the transaction, and
-- the session may be in a pool. Every row of one statement has the same NOW(6).
--
-- A statement may write many rows of one resource. From the second row on, one read that locks decides whether the mark
-- is still the token; @fencing_admitted only chooses the way.
DROP PROCEDURE IF EXISTS fencing_check;
CREATE PROCEDURE fencing_check(IN the_resource VARBINARY(1024), IN the_token VARBINARY(64))
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
checking: BEGIN
    -- Bytes of UTF-8, whatever the session's character set and collation are.
    DECLARE sequencer VARBINARY(1024) DEFAULT CONVERT(@fencing_sequencer USING utf8mb4);
    DECLARE presented VARBINARY(1024);
    DECLARE digits VARBINARY(1024);
    DECLARE seen BIGINT;
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    IF sequencer <> '' OR the_token <> '' THEN
        SET presented = IF(sequencer <> '', sequencer, the_token);
        SET @fencing_sequencer = NULL, @fencing_token = NULL, @fencing_used_at = NULL, @fencing_admitted = NULL;
        SET digits = SUBSTRING_INDEX(presented, ' ', 1);
        IF sequencer <> '' AND the_token <> '' THEN
            -- One was left behind by an earlier statement.
            SIGNAL SQLSTATE 'ZF400' SET MESSAGE_TEXT =
                'fencing: @fencing_sequencer and @fencing_token were both set: set one of them';
        ELSEIF sequencer <> '' AND LENGTH(sequencer) < LENGTH(digits) + 2 THEN
            SIGNAL SQLSTATE 'ZF400' SET MESSAGE_TEXT =
                'fencing: a sequencer is a token, one space and a resource, as in 34 docs/a';
        ELSEIF CONVERT(digits USING utf8mb4) NOT REGEXP '^[1-9][0-9]{0,14}$'
            OR (presented <> digits AND COALESCE(sequencer, '') = '')
        THEN
            SIGNAL SQLSTATE 'ZF400'
                SET MESSAGE_TEXT = 'fencing: a token lies between 1 and 999999999999999';
        END IF;
        SET @fencing_used = presented, @fencing_used_at = NOW(6) + 0;
    ELSEIF @fencing_used_at = NOW(6) + 0 THEN
        SET presented = @fencing_used, digits = SUBSTRING_INDEX(@fencing_used, ' ', 1);
        IF @fencing_admitted = the_resource THEN
            SELECT token INTO seen FROM fencing_marks_shared WHERE resource = the_resource LOCK IN SHARE MODE;
            IF seen = CAST(digits AS UNSIGNED) THEN
                CALL fencing_count(the_resource);
                LEAVE checking;
            END IF;
        END IF;
    END IF;
    SET seen = NULL;
    SELECT token INTO seen FROM fencing_marks_base WHERE resource = the_resource;
    IF presented IS NULL
        OR (presented <> digits AND SUBSTRING(presented, LENGTH(digits) + 2) <> the_resource)
    THEN
        SET words = CONCAT('fencing: no token presented',
            COALESCE(CONCAT(', but the sequencer ', LEFT(CONVERT(presented USING utf8mb4), 30),
                ' of another resource'), ''),
            ', high water ', COALESCE(seen, 'none'),
            ', resource ', COALESCE(CONVERT(the_resource USING utf8mb4), 'NULL'));
        SET words = IF(CHAR_LENGTH(words) > 128, CONCAT(LEFT(words, 125), '...'), words);
        SIGNAL SQLSTATE 'ZF428' SET MESSAGE_TEXT = words;
    END IF;
    CALL fencing_hold(the_resource, CAST(digits AS UNSIGNED), seen);
    SET @fencing_admitted = the_resource;
END;

-- fencing_share(resource, token): admits a token whose mark is raised already, as the first statement of a transaction,
-- by one read that locks: so the transaction reads nothing older than its admission. If the mark is not this token, it
-- ends the transaction at once, so that nobody waits for its lock on a row or a gap. ZF409: the mark is not raised yet.
-- Raise it in a transaction that does nothing else, and begin again: if a transaction raised the mark and then waited
-- for a row whose holder waits for the mark (a table protected by triggers), the deadlock could undo the raise.
DROP PROCEDURE IF EXISTS fencing_share;
CREATE PROCEDURE fencing_share(IN the_resource VARBINARY(1024), IN the_token BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE held BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    -- Presented by an earlier transaction, and not used.
    SET @fencing_sequencer = NULL, @fencing_token = NULL, @fencing_used_at = NULL;
    CALL fencing_count(the_resource);
    SELECT token INTO held FROM fencing_marks_shared
    WHERE resource = the_resource LOCK IN SHARE MODE;
    IF held IS NULL OR held <> the_token THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
        IF held > the_token THEN
            CALL fencing_hold(the_resource, the_token, held);
        END IF;
        SIGNAL SQLSTATE 'ZF409' SET MESSAGE_TEXT =
            'fencing: the mark is below the token: raise it in a transaction of its own first';
    END IF;
END;
