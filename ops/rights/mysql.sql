-- The rights of docs/reference/sql.md. Run the first block as the user who ran `fencing db migrate`, again after each new version
-- has migrated; then the block of each user, with its name and tables in place of these.

ALTER PROCEDURE fencing_admit SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_share SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_lower SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_prunable SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_raise_floor SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_prune SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_lease_acquire SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_lease_renew SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_lease_release SQL SECURITY DEFINER;
ALTER PROCEDURE fencing_lease_drain SQL SECURITY DEFINER;

-- Way 1: begin, admit, and write its tables.
GRANT EXECUTE ON PROCEDURE fencing_admit TO app_1;
GRANT EXECUTE ON PROCEDURE fencing_share TO app_1;
GRANT SELECT ON fencing_marks TO app_1;
GRANT SELECT ON fencing_marks_base TO app_1;
GRANT SELECT, INSERT, UPDATE, DELETE ON files TO app_1;
GRANT SELECT ON _fencing_migrations TO app_1;  -- for sql::migrate

-- Way 2: the row predicate.
GRANT SELECT, UPDATE (body, fence_token) ON files TO app_2;

-- Way 3: a protected table.
GRANT SELECT, INSERT, UPDATE, DELETE ON documents TO app_3;

-- Way 4: fencing_admit in its own SQL.
GRANT EXECUTE ON PROCEDURE fencing_admit TO app_4;
GRANT SELECT, INSERT, UPDATE, DELETE ON files TO app_4;

-- Leases: acquire, renew, release.
GRANT EXECUTE ON PROCEDURE fencing_lease_acquire TO locks;
GRANT EXECUTE ON PROCEDURE fencing_lease_renew TO locks;
GRANT EXECUTE ON PROCEDURE fencing_lease_release TO locks;
GRANT EXECUTE ON PROCEDURE fencing_lease_drain TO locks;
GRANT SELECT ON fencing_leases TO locks;
GRANT SELECT ON fencing_marks TO locks;
GRANT SELECT ON fencing_marks_base TO locks;
GRANT SELECT ON fencing_floor TO locks;
GRANT SELECT ON _fencing_migrations TO locks;  -- for sql::migrate

-- Operator: list, raise, lower and prune marks, list leases, read the audit.
GRANT EXECUTE ON PROCEDURE fencing_lower TO operator;
GRANT EXECUTE ON PROCEDURE fencing_prunable TO operator;
GRANT EXECUTE ON PROCEDURE fencing_raise_floor TO operator;
GRANT EXECUTE ON PROCEDURE fencing_prune TO operator;
GRANT EXECUTE ON PROCEDURE fencing_admit TO operator;
GRANT EXECUTE ON PROCEDURE fencing_share TO operator;
GRANT SELECT ON fencing_marks TO operator;
GRANT SELECT ON fencing_marks_base TO operator;
GRANT SELECT ON fencing_audit TO operator;
GRANT SELECT ON fencing_leases TO operator;

-- `fencing doctor`, as a user who may call a procedure: to others all procedures look lost.
GRANT SELECT ON _fencing_migrations TO app_4, operator;
