use sqlx::MySql;

use crate::database::LeaseStatements;

impl LeaseStatements for MySql {
    const LEASES: &'static str = "
        SELECT HEX(resource), token, CONVERT(owner USING utf8mb4),
            IF(owner = 'shared' AND parts IS NOT NULL,
                CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR), CONVERT(owner USING utf8mb4)),
            GREATEST(0, expires_at - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) DIV 1000,
            IF(owner = 'shared', CONVERT(parts USING utf8mb4), NULL)
        FROM fencing_leases
        WHERE resource {after} {resource} AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
        ORDER BY resource LIMIT {limit}";

    const END_LEASE: &'static str = "
        UPDATE fencing_leases SET expires_at = 0 WHERE resource = {resource} AND owner = {owner}
            AND token = {token} AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
        SET @fencing_ended = ROW_COUNT();
        INSERT INTO fencing_audit (resource, from_token, to_token, lowered_by, lowered_at)
        SELECT {resource}, {token}, {token}, USER(), UTC_TIMESTAMP(6) FROM DUAL WHERE @fencing_ended = 1;
        SELECT 1 FROM DUAL WHERE @fencing_ended = 1";

    const PROBE: &'static str = "
        SELECT 'a procedure fencing_lease_... is missing, or this user may not call it' FROM DUAL WHERE 3 > (
            SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE()
                AND routine_name IN ('fencing_lease_acquire', 'fencing_lease_renew', 'fencing_lease_release'))
        UNION ALL SELECT 'it takes no writes: it is a standby, or read-only' FROM DUAL
            WHERE @@GLOBAL.read_only NOT IN ('0', 'OFF')
        UNION ALL SELECT 'fencing_floor has no row' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM fencing_floor)
            AND NOT EXISTS (SELECT 1 FROM fencing_leases AS lease, fencing_marks_base AS mark
                WHERE lease.resource = '' AND mark.resource = '' AND lease.token = 0)";

    /// The procedures lock the row first and read the clock then; the migration says why. A single statement could not
    /// do it: its time is that of its begin, and it would not be committed where `autocommit` is off. A transaction of
    /// several statements would stay open for as long as its client is stopped in the middle of it.
    const CALL: &'static str = "CALL fencing_lease_{function}({arguments}, CEIL({patience} / 1000))";
}
