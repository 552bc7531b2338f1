-- Pruning: marks that were raised long ago are deleted. First the floor rises to the highest of them, and
-- that is committed. fencing_hold says why no transaction misses both. Each of these procedures is a
-- transaction of its own, and rolls back an open one of the session.

-- fencing_prunable(seconds, highest): the marks that may be pruned: at most `highest`, last raised at least `seconds`
-- ago, without a current lease. Returns their number, the floor, and the highest of them, its name in hexadecimal
-- digits.
DROP PROCEDURE IF EXISTS fencing_prunable;
CREATE PROCEDURE fencing_prunable(IN seconds BIGINT, IN highest BIGINT)
    READS SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE old_before DATETIME(6) DEFAULT UTC_TIMESTAMP(6) - INTERVAL seconds SECOND;
    DECLARE present BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    WITH old AS (
        SELECT resource, token FROM fencing_marks_base AS mark
        WHERE raised_at <= old_before AND token BETWEEN 1 AND highest
            AND NOT EXISTS (SELECT 1 FROM fencing_leases AS lease
                WHERE lease.resource = mark.resource AND expires_at > present)
    )
    SELECT (SELECT COUNT(*) FROM old) AS marks, floor.token AS floor, HEX(top.resource) AS name,
        top.token AS token
    FROM fencing_floor AS floor
    LEFT JOIN (SELECT resource, token FROM old ORDER BY token DESC LIMIT 1) AS top ON TRUE;
END;

-- fencing_raise_floor(token, waits): raises the floor. A current lease without a mark gets one
-- first: otherwise its token would be refused. It fails at once if another transaction shares the floor's row, unless
-- it `waits`: then later ones wait behind it.
DROP PROCEDURE IF EXISTS fencing_raise_floor;
CREATE PROCEDURE fencing_raise_floor(IN the_token BIGINT, IN waits BOOLEAN)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE floor BIGINT;
    DECLARE present BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    -- Shared, because a mark is created above the floor: see fencing_hold.
    SELECT token INTO floor FROM fencing_floor LOCK IN SHARE MODE;
    IF floor IS NULL THEN
        SIGNAL SQLSTATE 'ZF500' SET MESSAGE_TEXT = 'fencing: fencing_floor has no row';
    END IF;
    INSERT IGNORE INTO fencing_marks_base (resource, token)
    SELECT lease.resource, lease.token FROM fencing_leases AS lease
        LEFT JOIN fencing_marks AS mark ON mark.resource = lease.resource
    WHERE lease.expires_at > present AND lease.token > floor AND lease.token <= the_token
        AND mark.resource IS NULL
    ORDER BY lease.resource;
    COMMIT AND NO CHAIN NO RELEASE;
    START TRANSACTION;
    IF NOT waits THEN
        SET floor = NULL;
        SELECT token INTO floor FROM fencing_floor FOR UPDATE SKIP LOCKED;
        IF floor IS NULL THEN
            SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT =
                'fencing: a transaction is open that has created a mark';
        END IF;
    END IF;
    UPDATE fencing_floor SET token = the_token WHERE token < the_token;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- fencing_home(own): the server_id, or 0 on a Galera cluster. See fencing_count for how it is created.
DROP PROCEDURE IF EXISTS fencing_home;
CREATE PROCEDURE fencing_home(OUT own BIGINT)
    SQL SECURITY INVOKER
BEGIN
    SET own = @@GLOBAL.server_id;
END;
SET @fencing_text = 'DO 0' /*M!100602 , @fencing_text = IF(
    EXISTS (SELECT 1 FROM information_schema.system_variables WHERE variable_name = 'WSREP_ON'),
    'CREATE OR REPLACE PROCEDURE fencing_home(OUT own BIGINT)
        SQL SECURITY INVOKER
    BEGIN
        SET own = IF(@@GLOBAL.wsrep_on, 0, @@GLOBAL.server_id);
    END',
    'DO 0') */;
PREPARE fencing_text FROM @fencing_text;
EXECUTE fencing_text;
DEALLOCATE PREPARE fencing_text;

-- fencing_failed_over(): raises the floor above every token that the last server may have granted, for the first
-- lease that another one grants: a promoted replica may have lost grants. The floor is the seconds since 2026 and six
-- zeros: no resource has a million grants in a second.
DROP PROCEDURE IF EXISTS fencing_failed_over;
CREATE PROCEDURE fencing_failed_over()
    MODIFIES SQL DATA
    SQL SECURITY DEFINER
BEGIN
    DECLARE own BIGINT;
    DECLARE above BIGINT;
    CALL fencing_home(own);
    SELECT LEAST(999999999999997, GREATEST(token + 1000000,
        1000000 * TIMESTAMPDIFF(SECOND, '2026-01-01', UTC_TIMESTAMP())))
    INTO above FROM fencing_floor WHERE NOT server <=> own;
    IF above IS NOT NULL THEN
        CALL fencing_raise_floor(above, TRUE);
        START TRANSACTION;
        UPDATE fencing_floor SET server = own;
        COMMIT AND NO CHAIN NO RELEASE;
    END IF;
END;

-- fencing_prune(seconds, after, limit): deletes at most `limit` marks that may be pruned and are not above the floor, of
-- resources after this one. It skips marks that are locked. Returns their number, and the last name in hexadecimal
-- digits. It shares the floor, so that nobody lowers it by hand meanwhile.
DROP PROCEDURE IF EXISTS fencing_prune;
CREATE PROCEDURE fencing_prune(IN seconds BIGINT, IN after VARBINARY(255), IN at_most INT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE old_before DATETIME(6) DEFAULT UTC_TIMESTAMP(6) - INTERVAL seconds SECOND;
    DECLARE present BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE floor BIGINT;
    DECLARE name VARBINARY(255);
    DECLARE last VARBINARY(255);
    DECLARE pruned BIGINT DEFAULT 0;
    DECLARE is_done BOOLEAN DEFAULT FALSE;
    DECLARE old CURSOR FOR SELECT resource FROM fencing_marks_base AS mark
        WHERE resource > after AND raised_at <= old_before AND token BETWEEN 1 AND floor
            AND NOT EXISTS (SELECT 1 FROM fencing_leases AS lease
                WHERE lease.resource = mark.resource AND expires_at > present)
        ORDER BY resource LIMIT at_most FOR UPDATE SKIP LOCKED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    ROLLBACK AND NO CHAIN NO RELEASE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT token INTO floor FROM fencing_floor LOCK IN SHARE MODE;
    OPEN old;
    deleting: LOOP
        FETCH old INTO name;
        IF is_done THEN
            LEAVE deleting;
        END IF;
        DELETE FROM fencing_marks_base WHERE resource = name AND token <= floor;
        SET pruned = pruned + 1, last = name;
    END LOOP;
    CLOSE old;
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT pruned, HEX(last) AS last;
END;

-- If there are leases, the floor's row was lost: the next lease raises it. The variable makes a replica store this
-- server's number.
CALL fencing_home(@fencing_server);
UPDATE fencing_floor SET server = @fencing_server
WHERE token = 0 AND server IS NULL AND NOT EXISTS (SELECT 1 FROM fencing_leases);
