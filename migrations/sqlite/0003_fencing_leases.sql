-- The leases of SqlLock: for each resource the last one granted, and when it expires by
-- this machine's clock, in milliseconds since 1970; 0 is released.
-- `closed_for` is how long a grant or a renewal may close the row. If the clock was set back, the
-- row seems to be closed for longer: `clock_anomaly_since` is when that was first noticed, and `closed_for` counts from
-- then. A renewal corrects the row.
-- `parts`: several share the lock. A JSON object: each owner has a part, with the millisecond since 1970 at
-- which it ends; the row expires with the last of them. NULL: the last lease was exclusive. From
-- `draining_since` until `draining_until` nobody joins them, because an exclusive client waits for all of them to leave.
-- Never delete a row: the tokens of its resource would start again at 1, or at its mark,
-- and a stale writer that has not yet reached the storage would pass. A row takes about 100 bytes. If you
-- have millions, you may delete those of resources that will never be locked again and have no write on its way.
-- To free the lease of a holder that hangs: SET expires_at = 0.
-- BINARY compares bytes; NOCASE would take two names for one.
CREATE TABLE IF NOT EXISTS fencing_leases (
    resource TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token BETWEEN 1 AND 999999999999999),
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    closed_for INTEGER,
    clock_anomaly_since INTEGER,
    parts TEXT,
    draining_since INTEGER,
    draining_until INTEGER
) STRICT, WITHOUT ROWID;
