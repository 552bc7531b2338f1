-- The leases of SqlLock: for each resource the last one granted, and when it expires by
-- this database's clock; '-infinity' is released.
-- `closed_for` is how long a grant or a renewal may close the row. If the clock has been set back, the
-- row seems to be closed for longer: `odd_since` is when that was noticed first, and the row is free
-- when it has been so for `closed_for` since then. A renewal puts it right.
-- `parts`: several share the lock. Each owner has a part, with the microsecond since 1970 at which it
-- ends; the row expires with the last of them. NULL: one holds it alone, or did at last. From
-- `draining_since` until `draining_until` nobody joins them, as somebody waits for all of them to leave.
-- Never delete a row: the tokens of its resource would start again at 1, or at its mark,
-- and a stale writer that has not yet reached the storage would pass. If you
-- have millions of resources: a row takes about 150 bytes, and you may delete those of
-- resources that nobody will lock again and that no write is still on its way to.
-- To free the lease of a holder that hangs: SET expires_at = '-infinity'.
-- "C" compares bytes: no two names count as one, and no update of the system's locale data
-- breaks the index.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner text NOT NULL,
    expires_at timestamptz NOT NULL,
    closed_for interval,
    odd_since timestamptz,
    parts jsonb,
    draining_since timestamptz,
    draining_until timestamptz
);
