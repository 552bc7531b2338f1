-- Removes the fence, the marks and the leases. Fails while a table is protected: its triggers need the
-- views (`fencing db protect --remove`). Stop all writers first: without marks nothing is refused, and
-- a new fence starts without them. With the shell of SQLite: sqlite3 -bail.
SELECT json_extract('{}', 'fencing: the table ' || tbl_name
    || ' is protected: run fencing db protect --remove first')
FROM sqlite_schema
WHERE type = 'trigger' AND tbl_name NOT GLOB 'fencing_*'
    AND sql LIKE '%INSERT INTO fencing_check %';
DROP VIEW IF EXISTS fencing_lower;
DROP VIEW IF EXISTS fencing_check;
DROP VIEW IF EXISTS fencing_admit;
DROP TABLE IF EXISTS fencing_presented;
DROP TABLE IF EXISTS fencing_audit;
DROP TABLE IF EXISTS fencing_leases;
DROP TABLE IF EXISTS fencing_marks;
DROP TABLE IF EXISTS fencing_floor;
DROP TABLE IF EXISTS _fencing_migrations;
