-- The leases of SqlLock: for each resource the last one granted, and until when it lasts
-- by this machine's clock, in milliseconds since 1970; 0 is released.
-- Never delete a row: the next token of its resource would start again at 1, or at its
-- mark, and a stale writer that has not yet reached the storage would pass. For millions
-- of resources a row costs about 100 bytes; those that will never be locked again, under
-- any token that may still be on its way to a storage, may go.
-- To take a lease from a holder that hangs: SET expires_at = 0.
-- BINARY compares bytes; NOCASE would take two names for one.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
