-- What shadow mode keeps is bounded, and never an error.

-- fencing_note(place, resource, cause, message): as before, and the table is bounded: where the row is
-- another transaction's, or newer than the snapshot, a second one is written only while there
-- are fewer than 2000.
--
-- fencing.noted: what this transaction has noted. A statement that writes a million rows would else
-- change one row of this table a million times.
--
-- It works with the rights of its owner: a client that has no right on the fence is let through too.
CREATE OR REPLACE FUNCTION fencing_note(the_place text, the_resource text, the_cause text,
    the_message text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $fencing$
DECLARE
    noted text := coalesce(current_setting('fencing.noted', true), '');
    of_all text := md5(concat_ws(' ', the_place, the_cause));
    this text := md5(concat_ws(' ', the_place, the_cause, the_resource));
    who text := left(concat_ws(' ', session_user, nullif(current_setting('application_name'), '')), 200);
BEGIN
    IF strpos(noted, of_all) > 0 OR strpos(noted, this) > 0 THEN
        RETURN;
    END IF;
    RAISE LOG 'fencing, in shadow: %, place %', the_message, the_place;
    IF NOT EXISTS (SELECT FROM fencing_refusals
            WHERE resource = the_resource AND place = the_place AND cause = the_cause)
        AND (SELECT count(*) FROM fencing_refusals) >= 1000
    THEN
        the_resource := '';
        this := of_all;
    END IF;
    PERFORM set_config('fencing.noted', left(this || noted, 2048), true);
    BEGIN
        UPDATE fencing_refusals
        SET times = times + 1, writer = who, message = left(the_message, 1000),
            last_at = clock_timestamp()
        WHERE id = (SELECT id FROM fencing_refusals
            WHERE resource = the_resource AND place = the_place AND cause = the_cause
            LIMIT 1 FOR UPDATE SKIP LOCKED);
        IF FOUND THEN
            RETURN;
        END IF;
    EXCEPTION WHEN serialization_failure THEN
        NULL;
    END;
    IF EXISTS (SELECT FROM fencing_refusals
            WHERE resource = the_resource AND place = the_place AND cause = the_cause)
        AND (SELECT count(*) FROM fencing_refusals) >= 2000
    THEN
        RETURN;
    END IF;
    INSERT INTO fencing_refusals (place, resource, cause, writer, message)
    VALUES (the_place, the_resource, the_cause, who, left(the_message, 1000));
END
$fencing$;

-- fencing_shadow(resource, token, place): as before, and a refusal that cannot be kept is no error.
CREATE OR REPLACE FUNCTION fencing_shadow(the_resource text, the_token bigint, the_place text)
    RETURNS text LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    highest bigint;
    cause text;
    words text;
BEGIN
    BEGIN
        SELECT token INTO highest FROM fencing_marks WHERE resource = the_resource;
        IF highest = the_token THEN
            RETURN NULL;
        ELSIF the_token IS NULL THEN
            cause := 'unpresented';
            words := format('fencing: no token presented, high water %s, resource %s',
                coalesce(highest::text, 'none'), the_resource);
        ELSE
            PERFORM fencing_try(the_resource, the_token);
            RETURN NULL;
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'ZF412' THEN cause := 'stale'; words := SQLERRM;
        WHEN SQLSTATE 'ZF400' THEN cause := 'malformed'; words := SQLERRM;
        WHEN lock_not_available OR deadlock_detected OR serialization_failure THEN
            cause := 'waits';
            words := format('fencing: token %s would have waited: %s, resource %s', the_token,
                SQLERRM, the_resource);
        WHEN OTHERS THEN
            cause := 'failed';
            words := format('fencing: %s (%s), resource %s', SQLERRM, SQLSTATE, the_resource);
    END;
    BEGIN
        PERFORM fencing_note(the_place, coalesce(the_resource, ''), cause, words);
    EXCEPTION WHEN OTHERS THEN
        RAISE LOG 'fencing, in shadow: %, not kept: %, place %', words, SQLERRM, the_place;
    END;
    RETURN cause || ' ' || words;
END
$fencing$;

-- The schema of the marks, as for fencing_admit.
DO $fencing$
DECLARE
    home text := current_schema();
    called text;
BEGIN
    FOREACH called IN ARRAY ARRAY['fencing_note(text, text, text, text)',
        'fencing_shadow(text, bigint, text)']
    LOOP
        EXECUTE format('ALTER FUNCTION %1$I.' || called || ' SET search_path = %1$I, pg_temp', home);
    END LOOP;
END
$fencing$;
