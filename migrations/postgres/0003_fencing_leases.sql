-- The leases of SqlLock: for each resource the last one granted, and until when it lasts
-- by this database's clock; '-infinity' is released.
-- Never delete a row: the next token of its resource would start again at 1, or at its
-- mark, and a stale writer that has not yet reached the storage would pass. For millions
-- of resources a row costs about 150 bytes; those that will never be locked again, under
-- any token that may still be on its way to a storage, may go.
-- To take a lease from a holder that hangs: SET expires_at = '-infinity'.
-- "C" compares bytes: nothing merges two names, and no update of the system's locale
-- data breaks the index.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner text NOT NULL,
    expires_at timestamptz NOT NULL
);
