-- Removes the fence, the marks and the leases. Fails while a table is protected: its triggers need
-- the procedures (`fencing db protect --remove`). Stop all writers first: without marks nothing is
-- refused, and a new fence starts without them.
DROP PROCEDURE IF EXISTS fencing_removable;
CREATE PROCEDURE fencing_removable()
    READS SQL DATA
    SQL SECURITY INVOKER
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.triggers
        WHERE trigger_schema = DATABASE() AND action_statement LIKE '%CALL fencing\_check%')
    THEN
        SIGNAL SQLSTATE 'ZF403' SET MESSAGE_TEXT =
            'fencing: a table is protected: run fencing db protect --remove first';
    END IF;
END;
CALL fencing_removable();
DROP PROCEDURE fencing_removable;
DROP TABLE IF EXISTS fencing_audit, fencing_leases;
DROP VIEW IF EXISTS fencing_marks_base, fencing_marks_shared;
DROP TABLE IF EXISTS fencing_marks, fencing_floor;
DROP PROCEDURE IF EXISTS fencing_admit;
DROP PROCEDURE IF EXISTS fencing_check;
DROP PROCEDURE IF EXISTS fencing_count;
DROP PROCEDURE IF EXISTS fencing_failed_over;
DROP PROCEDURE IF EXISTS fencing_home;
DROP PROCEDURE IF EXISTS fencing_guard;
DROP PROCEDURE IF EXISTS fencing_hold;
DROP PROCEDURE IF EXISTS fencing_lease_acquire;
DROP PROCEDURE IF EXISTS fencing_lease_close;
DROP PROCEDURE IF EXISTS fencing_lease_drain;
DROP PROCEDURE IF EXISTS fencing_lease_open;
DROP PROCEDURE IF EXISTS fencing_lease_parts;
DROP PROCEDURE IF EXISTS fencing_lease_release;
DROP PROCEDURE IF EXISTS fencing_lease_renew;
DROP PROCEDURE IF EXISTS fencing_lower;
DROP PROCEDURE IF EXISTS fencing_prunable;
DROP PROCEDURE IF EXISTS fencing_prune;
DROP PROCEDURE IF EXISTS fencing_raise_floor;
DROP PROCEDURE IF EXISTS fencing_share;
DROP TABLE IF EXISTS _fencing_migrations;
