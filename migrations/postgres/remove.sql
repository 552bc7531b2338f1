-- Removes the fence, the marks and the leases. Fails, and changes nothing, while a table is protected:
-- its triggers need the functions (`fencing protect --remove`). Stop all writers first: without
-- marks nothing is refused, and a fence that is created anew starts without them.
DO $fencing$
BEGIN
    -- What stands in another schema of the path belongs to another fence.
    PERFORM set_config('search_path', quote_ident(current_schema()), true);
    DROP ROUTINE IF EXISTS fencing_protect, fencing_protect_truncate, fencing_protect_shadow,
        fencing_protect_truncate_shadow;
    DROP TABLE IF EXISTS fencing_refusals, fencing_audit, fencing_leases, fencing_marks,
        fencing_floor;
    DROP ROUTINE IF EXISTS fencing_above, fencing_admit, fencing_begin, fencing_check, fencing_compare,
        fencing_failed_over, fencing_guard, fencing_highest, fencing_hold, fencing_last, fencing_lower, fencing_server,
        fencing_note, fencing_present, fencing_prunable, fencing_prune, fencing_raise_floor,
        fencing_shadow, fencing_try;
    DROP TABLE IF EXISTS _fencing_migrations;
END
$fencing$;
