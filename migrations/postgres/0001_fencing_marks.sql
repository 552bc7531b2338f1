-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in.
-- "C" compares bytes: no two names count as one, and no update of the system's locale data
-- breaks the index.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 999999999999999)
);
