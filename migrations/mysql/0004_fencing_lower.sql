-- A mark never falls. The exception is fencing_lower, for a mark that was raised by a token that was
-- never granted. Each call adds a line to fencing_audit. With the
-- triggers of docs/reference/sql.md no other statement lowers, renames or deletes a mark. They are not
-- created here, because with a binary log only few users may create triggers. They do not guard
-- the creation of a mark: only the procedures compare it with the floor.

CREATE TABLE IF NOT EXISTS fencing_audit (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    resource VARBINARY(255) NOT NULL,
    from_token BIGINT NOT NULL,
    to_token BIGINT NOT NULL,
    lowered_by VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
    -- NULL within fencing_lower: permits the trigger to lower this mark.
    lowered_at DATETIME(6) NULL
) ENGINE = InnoDB;

-- fencing_guard, for the triggers: refuses to lower, rename or delete a mark (ZF403). A mark that is deleted has
-- no new resource. A mark at or below the floor may be deleted, because the floor refuses the same tokens. A
-- value that is not a token may be corrected. A floor of 0 may be deleted, to restore another: without a
-- row no procedure creates a mark.
DROP PROCEDURE IF EXISTS fencing_guard;
CREATE PROCEDURE fencing_guard(
    IN old_resource VARBINARY(255), IN old_token BIGINT,
    IN new_resource VARBINARY(255), IN new_token BIGINT)
    READS SQL DATA
    SQL SECURITY INVOKER
BEGIN
    IF old_token BETWEEN 1 AND 999999999999999
        AND (new_resource IS NULL OR new_resource <> old_resource OR new_token < old_token)
        AND NOT EXISTS (SELECT 1 FROM fencing_audit
            WHERE resource = old_resource AND new_resource = old_resource
                AND to_token = new_token AND lowered_at IS NULL)
        AND NOT COALESCE(new_resource IS NULL AND old_resource <> ''
            AND old_token <= (SELECT token FROM fencing_floor), FALSE)
    THEN
        SIGNAL SQLSTATE 'ZF403' SET MESSAGE_TEXT =
            'fencing: a mark is never lowered, renamed or deleted: that lets stale writes in';
    END IF;
END;

-- fencing_lower(resource, from, to): lowers a mark that was raised too far, if it is still `from`:
-- a call that is repeated must not undo what newer tokens have raised since. All tokens from `to`
-- on may write again, also those that were refused: choose one that is not below any that was
-- granted. It waits for those who write at the mark. ZF403: the mark is not `from`, or that is
-- not above `to`.
--
-- If the lease in the same database has granted the last token, 999999999999999, it continues after
-- `to`. Then `from` may be that token as well: a mark that has no token left above it
-- is lowered along with the lease, and any other mark stays.
--
-- The empty name is the floor, if a prune has raised it too far. Then tokens above `to` may write
-- again wherever a mark was pruned.
--
-- It is a transaction of its own, and rolls back an open one of the session.
DROP PROCEDURE IF EXISTS fencing_lower;
CREATE PROCEDURE fencing_lower(
    IN the_resource VARBINARY(1024), IN the_from BIGINT, IN the_token BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE mark BIGINT;
    DECLARE lease BIGINT;
    DECLARE named BOOLEAN;
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    IF (the_from BETWEEN 1 AND 999999999999999 AND the_token BETWEEN 1 AND 999999999999999)
        IS NOT TRUE
    THEN
        SIGNAL SQLSTATE 'ZF400'
            SET MESSAGE_TEXT = 'fencing: a token lies between 1 and 999999999999999';
    END IF;
    ROLLBACK AND NO CHAIN NO RELEASE;
    START TRANSACTION;
    IF the_resource = '' THEN
        SELECT token INTO mark FROM fencing_floor FOR UPDATE;
    ELSE
        SELECT token INTO mark FROM fencing_marks_base WHERE resource = the_resource FOR UPDATE;
    END IF;
    SELECT token INTO lease FROM fencing_leases
    WHERE resource = the_resource AND token = 999999999999999 FOR UPDATE;
    SET named = mark <=> the_from OR lease <=> the_from;
    IF NOT named OR the_from <= the_token THEN
        SET words = CONCAT('fencing: nothing was lowered from ', the_from, ' to ', the_token,
            ', high water ', COALESCE(mark, 'none'),
            COALESCE(CONCAT(', lease ', lease), ''), ', resource ',
            COALESCE(CONVERT(the_resource USING utf8mb4), 'NULL'));
        SET words = IF(CHAR_LENGTH(words) > 128, CONCAT(LEFT(words, 125), '...'), words);
        SIGNAL SQLSTATE 'ZF403' SET MESSAGE_TEXT = words;
    END IF;
    INSERT INTO fencing_audit (resource, from_token, to_token, lowered_by)
    VALUES (the_resource, the_from, the_token, USER());
    UPDATE fencing_marks_base SET token = the_token
    WHERE resource = the_resource AND token > the_token
        AND (token = the_from OR token = 999999999999998);
    UPDATE fencing_floor SET token = the_token WHERE the_resource = '' AND token = the_from;
    UPDATE fencing_leases SET token = the_token
    WHERE resource = the_resource AND token = 999999999999999;
    UPDATE fencing_audit SET lowered_at = UTC_TIMESTAMP(6)
    WHERE resource = the_resource AND lowered_at IS NULL;
    COMMIT AND NO CHAIN NO RELEASE;
END;
