-- Shadow mode: the fence refuses nothing. The first refusal of each place (a table, or `admit`),
-- resource, cause and writer is written to the server's log and to this table. A transaction that rolls back, and so has
-- written nothing, removes its rows here, but not from the log. From 1000 rows on the name of the resource is empty, and
-- from 2000 on no row is added. To start over: DELETE FROM fencing_refusals.
CREATE TABLE IF NOT EXISTS fencing_refusals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    place text NOT NULL,
    resource text COLLATE "C" NOT NULL,
    cause text NOT NULL,
    writer text NOT NULL,
    message text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS fencing_refusals_of ON fencing_refusals (resource, place, cause);

-- fencing_note(place, resource, cause, message): records a refusal, if it is new. It changes no row, and so waits for
-- nobody: concurrent transactions may add the same row.
--
-- It works with the rights of its owner: a client without any right on the fence is let through as well.
CREATE OR REPLACE FUNCTION fencing_note(the_place text, the_resource text, the_cause text,
    the_message text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $fencing$
DECLARE
    who text := left(concat_ws(' ', session_user, nullif(current_setting('application_name'), '')), 200);
BEGIN
    IF EXISTS (SELECT FROM fencing_refusals WHERE resource IN (the_resource, '')
        AND place = the_place AND cause = the_cause AND writer = who)
    THEN
        RETURN;
    END IF;
    INSERT INTO fencing_refusals (place, resource, cause, writer, message)
    SELECT the_place, CASE WHEN count(*) < 1000 THEN the_resource ELSE '' END, the_cause, who,
        left(the_message, 1000)
    FROM fencing_refusals HAVING count(*) < 2000;
    IF FOUND THEN
        RAISE LOG 'fencing, in shadow: %, place %', the_message, the_place;
    END IF;
END
$fencing$;

-- fencing_try(resource, token): as fencing_admit, but it waits 10 ms at most (the end of this file sets that).
CREATE OR REPLACE FUNCTION fencing_try(the_resource text, the_token bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $fencing$
BEGIN
    PERFORM fencing_hold(the_resource, the_token, true);
END
$fencing$;

-- fencing_shadow(resource, token, place): as fencing_admit, but refuses nothing. It returns NULL if
-- the token would be admitted, or the cause, a space, and the message. A NULL token: none was
-- presented. It raises the mark, unless it would have to wait for that: then the cause is
-- `waits`, because the write would have waited for another transaction, and perhaps have been
-- refused after that. An error of its own, such as a missing right, is a cause as well. A refusal that
-- it cannot record is in the server's log only.
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
        PERFORM fencing_note(the_place, coalesce(the_resource, 'NULL'), cause, words);
    EXCEPTION WHEN OTHERS THEN
        RAISE LOG 'fencing, in shadow: %, not kept: %, place %', words, SQLERRM, the_place;
    END;
    RETURN cause || ' ' || words;
END
$fencing$;

-- The trigger of a table in shadow mode. Its arguments are those of fencing_protect. No error stops the write.
CREATE OR REPLACE FUNCTION fencing_protect_shadow() RETURNS trigger LANGUAGE plpgsql AS $fencing$
DECLARE
    place text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    names text[] := ARRAY[TG_ARGV[1]];
    named text := format('($1).%I::text', TG_ARGV[0]);
    name text;
BEGIN
    IF TG_NARGS > 2 THEN
        SELECT string_agg(format(
            'replace(replace(($1).%I::text, ''%%'', ''%%25''), ''/'', ''%%2F'')', part),
            ' || ''/'' || ' ORDER BY nr)
        INTO named
        FROM unnest(TG_ARGV[0] || TG_ARGV[2:TG_NARGS - 1]) WITH ORDINALITY AS named (part, nr);
    END IF;
    IF TG_ARGV[0] <> '' THEN
        names := ARRAY[]::text[];
        IF TG_OP <> 'INSERT' THEN
            EXECUTE 'SELECT $2 || ' || named INTO name USING OLD, TG_ARGV[1];
            names := names || name;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            EXECUTE 'SELECT $2 || ' || named INTO name USING NEW, TG_ARGV[1];
            IF TG_OP = 'INSERT' OR name IS DISTINCT FROM names[1] THEN
                names := names || name;
            END IF;
        END IF;
    END IF;
    FOREACH name IN ARRAY names LOOP
        BEGIN
            PERFORM fencing_check(name, place);
        EXCEPTION
            WHEN SQLSTATE 'ZF428' THEN
                PERFORM fencing_note(place, coalesce(name, 'NULL'), 'unpresented', SQLERRM);
            WHEN SQLSTATE 'ZF400' THEN
                PERFORM fencing_note(place, coalesce(name, 'NULL'), 'malformed', SQLERRM);
            WHEN OTHERS THEN
                PERFORM fencing_note(place, coalesce(name, 'NULL'), 'failed',
                    format('fencing: %s (%s), resource %s', SQLERRM, SQLSTATE, name));
        END;
    END LOOP;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE LOG 'fencing, in shadow: %, place %', SQLERRM, place;
    RETURN NULL;
END
$fencing$;

CREATE OR REPLACE FUNCTION fencing_protect_truncate_shadow() RETURNS trigger LANGUAGE plpgsql
    AS $fencing$
BEGIN
    PERFORM fencing_note(format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME), '', 'truncate',
        format('fencing: no token presented, %s is protected against TRUNCATE', TG_TABLE_NAME));
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE LOG 'fencing, in shadow: %, place %', SQLERRM, TG_TABLE_NAME;
    RETURN NULL;
END
$fencing$;

-- The schema of the marks, as for fencing_admit.
DO $fencing$
DECLARE
    home text := current_schema();
    called text;
BEGIN
    FOREACH called IN ARRAY ARRAY['fencing_note(text, text, text, text)',
        'fencing_shadow(text, bigint, text)', 'fencing_protect_shadow()',
        'fencing_protect_truncate_shadow()']
    LOOP
        EXECUTE format('ALTER FUNCTION %1$I.' || called || ' SET search_path = %1$I, pg_temp', home);
    END LOOP;
    ALTER FUNCTION fencing_try(text, bigint) SET lock_timeout = '10ms';
END
$fencing$;
