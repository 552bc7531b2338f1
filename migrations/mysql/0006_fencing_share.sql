-- fencing_share(resource, token): the short way of fencing_begin, in a transaction that has done
-- nothing yet. It takes one read that locks. Where the mark is not this token, it ends the
-- transaction at once, and signals ZF409: begin with fencing_begin. So nobody waits while it holds the
-- lock of a row, or of a gap, that others need for their first contact.
DROP PROCEDURE IF EXISTS fencing_share;
CREATE PROCEDURE fencing_share(IN the_resource VARBINARY(1024), IN the_token BIGINT)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
BEGIN
    DECLARE held BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    -- What an earlier transaction has presented for nothing.
    SET @fencing_sequencer = NULL, @fencing_token = NULL, @fencing_used_at = NULL;
    SELECT token INTO held FROM fencing_marks_base
    WHERE resource = the_resource LOCK IN SHARE MODE;
    IF held IS NULL OR held <> the_token THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SIGNAL SQLSTATE 'ZF409' SET MESSAGE_TEXT = 'fencing: the mark is not this token';
    END IF;
END;
-- On a Galera cluster a lock holds on one node only: see fencing_count.
SET @fencing_text = 'DO 0' /*M!100602 , @fencing_text = IF(
    EXISTS (SELECT 1 FROM information_schema.system_variables WHERE variable_name = 'WSREP_ON'),
    'CREATE OR REPLACE PROCEDURE fencing_share(IN the_resource VARBINARY(1024), IN the_token BIGINT)
        MODIFIES SQL DATA
        SQL SECURITY INVOKER
    BEGIN
        DECLARE held BIGINT;
        DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
        SET @fencing_sequencer = NULL, @fencing_token = NULL, @fencing_used_at = NULL;
        IF NOT @@GLOBAL.wsrep_on THEN
            SELECT token INTO held FROM fencing_marks_base
            WHERE resource = the_resource LOCK IN SHARE MODE;
        END IF;
        IF held IS NULL OR held <> the_token THEN
            ROLLBACK AND NO CHAIN NO RELEASE;
            SIGNAL SQLSTATE ''ZF409'' SET MESSAGE_TEXT = ''fencing: the mark is not this token'';
        END IF;
    END',
    'DO 0') */;
PREPARE fencing_text FROM @fencing_text;
EXECUTE fencing_text;
DEALLOCATE PREPARE fencing_text;
