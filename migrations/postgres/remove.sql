-- Removes the fence, the marks and the leases. Fails, and changes nothing, while a table is protected:
-- its triggers need the functions (`fencing db protect --remove`). Stop all writers first: without
-- marks nothing is refused, and a new fence starts without them.
DO $fencing$
BEGIN
    -- Tables in another schema of the path belong to another fence.
    PERFORM set_config('search_path', quote_ident(current_schema()), true);
    DROP ROUTINE IF EXISTS fencing_protect, fencing_protect_truncate;
    DROP TABLE IF EXISTS fencing_audit, fencing_leases, fencing_marks, fencing_floor;
    DROP ROUTINE IF EXISTS fencing_above, fencing_admit, fencing_begin, fencing_check, fencing_compare,
        fencing_failed_over, fencing_guard, fencing_highest, fencing_hold, fencing_last, fencing_lease_acquire,
        fencing_lease_drain, fencing_lease_end, fencing_lease_parts, fencing_lease_release, fencing_lease_renew,
        fencing_list, fencing_lower, fencing_pin, fencing_server, fencing_present, fencing_prunable, fencing_prune, fencing_raise_floor;
    DROP TABLE IF EXISTS _fencing_migrations;
END
$fencing$;
