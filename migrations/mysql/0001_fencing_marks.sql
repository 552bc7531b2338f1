-- The high-water marks: for each resource, the highest fencing token seen.
-- Never lower or delete a mark: that lets stale writes in.
-- VARBINARY compares bytes; a collation would take R for r, and a name with a space at
-- its end for the one without. InnoDB has the row locks that the fence needs.
CREATE TABLE IF NOT EXISTS fencing_marks (
    resource VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token BETWEEN 1 AND 999999999999999)
) ENGINE = InnoDB;
