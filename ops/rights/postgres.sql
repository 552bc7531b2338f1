-- The rights of docs/reference/sql.md. Run the first block as the user who ran `fencing db migrate`, again after each new version
-- has migrated; then the block of each user, with its name and tables in place of these.

REVOKE CREATE ON SCHEMA public FROM PUBLIC;  -- the schema of the marks
REVOKE EXECUTE ON FUNCTION fencing_admit, fencing_compare, fencing_highest, fencing_hold, fencing_last,
    fencing_check, fencing_protect, fencing_protect_truncate FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE fencing_begin FROM PUBLIC;
ALTER FUNCTION fencing_admit SECURITY DEFINER;
ALTER FUNCTION fencing_compare SECURITY DEFINER;
ALTER FUNCTION fencing_highest SECURITY DEFINER;
ALTER FUNCTION fencing_last SECURITY DEFINER;
ALTER PROCEDURE fencing_begin SECURITY DEFINER;
ALTER FUNCTION fencing_protect SECURITY DEFINER;

-- Way 1: begin, admit, and write its tables.
GRANT EXECUTE ON PROCEDURE fencing_begin TO app_1;
GRANT EXECUTE ON FUNCTION fencing_admit, fencing_compare, fencing_highest TO app_1;
GRANT SELECT, INSERT, UPDATE, DELETE ON files TO app_1;
GRANT SELECT ON _fencing_migrations TO app_1;  -- for sql::migrate

-- Way 2: the row predicate.
GRANT SELECT, UPDATE (body, fence_token) ON files TO app_2;

-- Way 3: a protected table.
GRANT SELECT, INSERT, UPDATE, DELETE ON documents TO app_3;

-- Way 4: fencing_admit in its own SQL.
GRANT EXECUTE ON FUNCTION fencing_admit TO app_4;
GRANT SELECT, INSERT, UPDATE, DELETE ON files TO app_4;

-- Leases: acquire, renew, release.
GRANT SELECT, INSERT, UPDATE ON fencing_leases TO locks;
GRANT SELECT ON _fencing_migrations TO locks;  -- for sql::migrate
GRANT EXECUTE ON FUNCTION fencing_highest, fencing_last TO locks;

-- Operator: list, raise, lower and prune marks, list leases, read the audit.
GRANT EXECUTE ON FUNCTION fencing_lower, fencing_highest, fencing_compare, fencing_admit TO operator;
GRANT EXECUTE ON FUNCTION fencing_prunable, fencing_raise_floor, fencing_prune TO operator;
GRANT EXECUTE ON PROCEDURE fencing_begin TO operator;
GRANT SELECT ON fencing_marks, fencing_audit TO operator;
GRANT SELECT ON fencing_leases TO operator;

-- `fencing doctor`: --lock as `locks`, --marks as any other user.
GRANT SELECT ON _fencing_migrations TO app_2, app_3, app_4, operator;
GRANT SELECT ON documents TO app_1, app_2, app_4, locks, operator;  -- each protected table
