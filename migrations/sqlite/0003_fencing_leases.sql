-- The leases of SqlLock: for each resource the last one granted, and when it expires by
-- this machine's clock, in milliseconds since 1970; 0 is released.
-- Never delete a row: the tokens of its resource would start again at 1, or at its mark,
-- and a stale writer that has not yet reached the storage would pass. If you
-- have millions of resources: a row takes about 100 bytes, and you may delete those of
-- resources that nobody will lock again and that no write is still on its way to.
-- To free the lease of a holder that hangs: SET expires_at = 0.
-- BINARY compares bytes; NOCASE would take two names for one.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
