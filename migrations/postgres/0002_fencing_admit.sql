-- fencing_admit(resource, token): compares the token with the mark of the resource and
-- raises the mark to it, in the caller's transaction, and locks it until that ends.
-- Equal passes. Errors: ZF412 the token is stale, ZF400 the token or the name is not valid,
-- ZF500 the mark is not a valid token.
--
-- The functions that clients and triggers call have the schema of the marks as their search_path (fencing_pin): they use
-- the same table whatever the caller's path and temporary tables are. To set a path costs about
-- 10 us for each call, so inner functions have none.
CREATE OR REPLACE FUNCTION fencing_admit(the_resource text, the_token bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $fencing$
BEGIN
    PERFORM fencing_hold(the_resource, the_token, true);
END
$fencing$;

-- fencing_compare(resource, token): the same, but returns NULL if the token is admitted, or else the mark: an
-- error would end the transaction.
CREATE OR REPLACE FUNCTION fencing_compare(the_resource text, the_token bigint)
    RETURNS bigint LANGUAGE plpgsql VOLATILE AS $fencing$
BEGIN
    RETURN fencing_hold(the_resource, the_token, false);
END
$fencing$;

-- fencing_highest(resource): reads the mark, without a lock. No row means no mark.
CREATE OR REPLACE FUNCTION fencing_highest(the_resource text)
    RETURNS TABLE (token bigint) LANGUAGE plpgsql STABLE AS $fencing$
BEGIN
    RETURN QUERY SELECT mark.token FROM fencing_marks AS mark WHERE resource = the_resource;
END
$fencing$;

-- fencing_list(after, limit): reads marks of resources after this one.
CREATE OR REPLACE FUNCTION fencing_list(after text, at_most bigint)
    RETURNS TABLE (resource text, token bigint) LANGUAGE plpgsql STABLE AS $fencing$
BEGIN
    RETURN QUERY SELECT mark.resource, mark.token FROM fencing_marks AS mark
    WHERE mark.resource > after ORDER BY mark.resource LIMIT at_most;
END
$fencing$;

-- fencing_hold(resource, token, raises): what both do.
--
-- `seen`: the mark; or, if there is none and the floor refuses the token, one above the floor.
--
-- `turn`: row locks are not fair. A transaction that shares one overtakes those that wait
-- for it, and a stream of equal tokens would keep a newer one out for ever. Advisory
-- locks queue. They are for fairness alone and the row locks below decide, so two names
-- with one hash cost a wait and nothing else. A stale token takes none: it
-- must not delay the newer one.
--
-- `queues`: advisory locks are in a table of fixed size that all sessions share, about 64 for each. A
-- transaction that has queued for 32 admissions takes row locks only, which have no limit.
-- fencing.turns counts them; it ends with the transaction, and a savepoint takes it back like the
-- locks.
--
-- `held`: the mark is this token already. SHARE admits equal tokens side by side, and a raise waits
-- until they have ended; KEY SHARE would let it pass. After a wait
-- for another transaction, the token is compared again with the newest row.
--
-- `raised`: the first contact. It waits for every holder of an older token, and compares
-- after the wait, with the newest row. It is not tried if the mark was as high already: an upsert
-- locks the row even if it changes nothing, and `held` may share the row's newest version; two
-- transactions that then lock it exclusively are a deadlock. A mark below 1 stays, and is reported as corrupt. If it
-- creates a mark, a trigger compares with the floor once more (fencing_above).
--
-- Under REPEATABLE READ and SERIALIZABLE both fail with 40001 if the row is newer than
-- the snapshot.
--
-- If neither admits, another statement reads the mark: the snapshot of the first may be
-- older than the mark that refused it. If an equal token came first, it is tried again: only `held`
-- and `raised` take the locks.
CREATE OR REPLACE FUNCTION fencing_hold(the_resource text, the_token bigint, raises boolean)
    RETURNS bigint LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    turns integer := coalesce(nullif(current_setting('fencing.turns', true), ''), '0');
    queues boolean := turns < 32;
    counted text;
    admitted boolean;
    highest bigint;
BEGIN
    IF the_resource IS NULL OR octet_length(the_resource) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF400',
            MESSAGE = 'fencing: a resource name has 1 to 255 bytes';
    END IF;
    IF the_token IS NULL OR the_token NOT BETWEEN 1 AND 999999999999999 THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF400',
            MESSAGE = 'fencing: a token lies between 1 and 999999999999999';
    END IF;
    IF queues THEN
        counted := set_config('fencing.turns', (turns + 1)::text, true);
    END IF;
    -- Most often the mark is this token already. Then this does the same as `held` below, and
    -- costs less. CASE fixes the order of the tests: a stale token takes no lock.
    PERFORM FROM fencing_marks
        WHERE resource = the_resource AND CASE WHEN token = the_token
            THEN CASE WHEN queues THEN pg_advisory_xact_lock_shared(
                hashtextextended(the_resource, 28548280319532647)) IS NOT NULL ELSE true END END
        FOR SHARE;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    -- The raise may make an earlier admission of this transaction stale.
    PERFORM set_config('fencing.admitted', '', true);
    FOR attempt IN 1..3 LOOP
        WITH seen AS MATERIALIZED (
            SELECT coalesce((SELECT token FROM fencing_marks WHERE resource = the_resource),
                (SELECT token + 1 FROM fencing_floor WHERE token >= the_token)) AS token
        ), turn AS MATERIALIZED (
            SELECT CASE
                WHEN NOT queues OR EXISTS (SELECT FROM seen WHERE token > the_token) THEN NULL
                WHEN EXISTS (SELECT FROM seen WHERE token = the_token)
                    THEN pg_advisory_xact_lock_shared(
                        hashtextextended(the_resource, 28548280319532647))
                ELSE pg_advisory_xact_lock(hashtextextended(the_resource, 28548280319532647))
            END AS taken
        ), held AS (
            SELECT FROM turn, fencing_marks AS mark
            WHERE mark.resource = the_resource AND mark.token = the_token
            FOR SHARE OF mark
        ), raised AS (
            INSERT INTO fencing_marks AS mark (resource, token)
            SELECT the_resource, the_token FROM turn
            WHERE NOT EXISTS (SELECT FROM seen WHERE token >= the_token)
            ON CONFLICT (resource) DO UPDATE
            SET token = EXCLUDED.token, raised_at = EXCLUDED.raised_at
            WHERE mark.token BETWEEN 1 AND EXCLUDED.token - 1
            RETURNING 1
        )
        SELECT EXISTS (SELECT FROM held) OR EXISTS (SELECT FROM raised) INTO admitted;
        IF admitted THEN
            RETURN NULL;
        END IF;
        highest := coalesce((SELECT token FROM fencing_marks WHERE resource = the_resource),
            (SELECT token + 1 FROM fencing_floor WHERE token >= the_token));
        EXIT WHEN highest > the_token;
    END LOOP;
    IF NOT raises THEN
        RETURN coalesce(highest, 0);
    ELSIF highest BETWEEN the_token + 1 AND 999999999999999 THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF412', MESSAGE = format(
            'fencing: token %s is stale, high water %s, resource %s',
            the_token, highest, the_resource);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'ZF500',
        MESSAGE = format('fencing: the mark is not a valid token, resource %s', the_resource);
END
$fencing$;

-- fencing_begin(resource, token): admits a token whose mark is raised already, as the first statement of
-- a transaction. ZF409: it is not raised yet. Raise it in a transaction that does nothing else, and begin again.
--
-- The raise commits by itself: if a transaction raised the mark and then waited for a row whose holder waits for
-- the mark (a table protected by triggers), the deadlock could undo the raise, and admit the older token again. And
-- under REPEATABLE READ and SERIALIZABLE the snapshot would be older than the wait, and miss what the older token wrote
-- meanwhile.
--
-- It presents the two to protected tables as well (fencing_present).
--
-- It is a procedure because CALL costs less than SELECT.
CREATE OR REPLACE PROCEDURE fencing_begin(the_resource text, the_token bigint)
    LANGUAGE plpgsql AS $fencing$
BEGIN
    PERFORM set_config('fencing.sequencer', '@' || extract(epoch FROM transaction_timestamp())
        || ' ' || the_token || ' ' || the_resource, true);
    PERFORM FROM fencing_marks
        WHERE resource = the_resource AND CASE WHEN token = the_token
            THEN pg_advisory_xact_lock_shared(
                hashtextextended(the_resource, 28548280319532647)) IS NOT NULL END
        FOR SHARE;
    IF FOUND THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM fencing_marks WHERE resource = the_resource AND token > the_token)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF409',
            MESSAGE = 'fencing: the first contact of a token needs a transaction of its own';
    END IF;
    PERFORM fencing_hold(the_resource, the_token, true);
END
$fencing$;

-- fencing_present(sequencer): presents a token together with its resource (`34 docs/a`: the
-- token, one space, the name) to the triggers of protected tables, for what this transaction
-- writes from here on to rows of that resource. A bare token (`34`) counts for rows of every
-- resource. ZF400: it is neither.
--
-- The setting fencing.sequencer is then `@`, the time when this transaction began, a space, and what was
-- presented: so a value that stays in the session is not valid in a later transaction. Clients may also set
-- these two: SET LOCAL fencing.sequencer = '34 docs/a', or
-- SET LOCAL fencing.token = '34', which counts if there is no sequencer. Never send SET
-- without LOCAL: it stays in the session until a transaction that has used it commits.
CREATE OR REPLACE FUNCTION fencing_present(presented text)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $fencing$
BEGIN
    IF presented IS NULL OR presented !~ '^[1-9][0-9]{0,14}( .|$)' THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF400', MESSAGE =
            'fencing: present a token, one space and a resource, as in ''34 docs/a'', or a token: '
            'it lies between 1 and 999999999999999';
    END IF;
    PERFORM set_config('fencing.sequencer',
        '@' || extract(epoch FROM transaction_timestamp()) || ' ' || presented, true);
END
$fencing$;

-- fencing_check(resource): admits the token that the transaction has
-- presented, for the triggers of protected tables. ZF428: none was presented, or only one of
-- another resource. ZF400: what was presented is malformed.
--
-- `raw`: a setting that the client has set itself, by SET LOCAL or SET, which the server does not
-- tell apart. It is used up: the session keeps `@`, which presents nothing, and until the
-- transaction ends the setting is as fencing_present leaves it. A rollback undoes that.
--
-- `same`: the last admission of this transaction, with both settings, in fencing.admitted: a statement that writes many
-- rows of one resource reads the mark once. The lock on the mark keeps every raise but the transaction's own out until it
-- ends, and fencing_hold clears the setting before it raises. Like the lock, it ends with the transaction, and a
-- savepoint takes it back. A client that sets it by hand presents a forged token, which needs no such setting.
CREATE OR REPLACE FUNCTION fencing_check(the_resource text)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    bound text := '@' || extract(epoch FROM transaction_timestamp()) || ' ';
    presented text := nullif(current_setting('fencing.sequencer', true), '');
    raw text;
    digits text;
    same text := 'fencing_marks'::regclass::oid || ' ' || octet_length(the_resource) || ' ' || the_resource || ' '
        || coalesce(presented, '') || ' ' || coalesce(current_setting('fencing.token', true), '');
BEGIN
    IF current_setting('fencing.admitted', true) = same THEN
        RETURN;
    END IF;
    IF left(presented, 1) = '@' THEN
        presented := CASE WHEN starts_with(presented, bound)
            THEN substr(presented, length(bound) + 1) END;
    ELSIF presented !~ '^[1-9][0-9]{0,14} .' THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF400', MESSAGE = format(
            'fencing: a sequencer is a token, one space and a resource, as in ''34 docs/a'', '
            'not ''%s''', presented);
    ELSE
        raw := 'fencing.sequencer';
    END IF;
    IF presented IS NULL THEN
        presented := nullif(current_setting('fencing.token', true), '');
        raw := 'fencing.token';
        IF left(presented, 1) = '@' THEN
            presented := CASE WHEN starts_with(presented, bound)
                THEN substr(presented, length(bound) + 1) END;
            raw := NULL;
        END IF;
    END IF;
    digits := split_part(presented, ' ', 1);
    IF digits !~ '^[1-9][0-9]{0,14}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF400',
            MESSAGE = 'fencing: a token lies between 1 and 999999999999999';
    END IF;
    IF presented IS NULL
        OR presented <> digits
            AND substr(presented, length(digits) + 2) COLLATE "C" <> the_resource COLLATE "C"
    THEN
        RAISE EXCEPTION USING ERRCODE = 'ZF428', MESSAGE = format(
            'fencing: no token presented%s, high water %s, resource %s',
            ', but the sequencer ' || presented || ' of another resource',
            coalesce((SELECT mark.token::text FROM fencing_marks AS mark
                WHERE resource = the_resource), 'none'),
            the_resource),
            HINT = 'Present it in the transaction that writes: SELECT fencing_present(''34 docs/a'')';
    END IF;
    IF raw IS NOT NULL THEN
        PERFORM set_config(raw, '@', false), set_config(raw, bound || presented, true);
    END IF;
    -- This transaction has locked a row already. If it waited for a newer token's raise, which may wait for
    -- that row, the deadlock could undo the raise. So it fails at once.
    IF coalesce(nullif(current_setting('fencing.turns', true), ''), '0')::integer < 32
        AND (SELECT NOT pg_try_advisory_xact_lock_shared(
                hashtextextended(the_resource, 28548280319532647))
            FROM fencing_marks AS mark
            WHERE mark.resource = the_resource AND mark.token = digits::bigint)
    THEN
        RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = format(
            'fencing: a newer token is being admitted: run the transaction again, resource %s',
            the_resource);
    END IF;
    PERFORM fencing_hold(the_resource, digits::bigint, true);
    IF raw IS NULL THEN
        PERFORM set_config('fencing.admitted', same, true);
    END IF;
END
$fencing$;

-- The trigger of a protected table. Its arguments are `refuse` or, in shadow mode, `warn`; the column that names the
-- resource, and the text before it in the name; or '' and the whole name. Further columns follow. Several are joined by
-- / and escaped, so that ('a/b', 'c') and ('a', 'b/c') are two names.
--
-- In shadow mode a refusal is a warning in the server's log and for the client, and the write continues. It waits
-- 10 ms at most for other transactions. An error within the block takes the setting of that back.
CREATE OR REPLACE FUNCTION fencing_protect() RETURNS trigger LANGUAGE plpgsql AS $fencing$
DECLARE
    named text := format('($1).%I::text', TG_ARGV[1]);
    names text[];
    name text := TG_ARGV[2];
    patience text;
    warning text;
BEGIN
    IF TG_ARGV[1] = '' THEN
        names := ARRAY[name];
    ELSE
        IF TG_NARGS > 3 THEN
            SELECT string_agg(format(
                'replace(replace(($1).%I::text, ''%%'', ''%%25''), ''/'', ''%%2F'')', part),
                ' || ''/'' || ' ORDER BY nr)
            INTO named
            FROM unnest(TG_ARGV[1] || TG_ARGV[3:TG_NARGS - 1]) WITH ORDINALITY AS named (part, nr);
        END IF;
        IF TG_OP <> 'INSERT' THEN
            EXECUTE 'SELECT $2 || ' || named INTO name USING OLD, TG_ARGV[2];
            names := ARRAY[name];
        END IF;
        IF TG_OP <> 'DELETE' THEN
            EXECUTE 'SELECT $2 || ' || named INTO name USING NEW, TG_ARGV[2];
            IF TG_OP = 'INSERT' OR name IS DISTINCT FROM names[1] THEN
                names := names || name;
            END IF;
        END IF;
    END IF;
    FOREACH name IN ARRAY names LOOP
        IF TG_ARGV[0] IS DISTINCT FROM 'warn' THEN
            PERFORM fencing_check(name);
            CONTINUE;
        END IF;
        BEGIN
            patience := current_setting('lock_timeout');
            PERFORM set_config('lock_timeout', '10ms', true);
            PERFORM fencing_check(name);
            PERFORM set_config('lock_timeout', patience, true);
        EXCEPTION WHEN OTHERS THEN
            warning := format('fencing, in shadow mode: %s (%s in %I.%I)',
                SQLERRM, name, TG_TABLE_SCHEMA, TG_TABLE_NAME);
            -- Not for each row of a statement.
            IF warning IS DISTINCT FROM current_setting('fencing.warning', true) THEN
                PERFORM set_config('fencing.warning', warning, true);
                RAISE WARNING USING MESSAGE = warning, ERRCODE = SQLSTATE;
            END IF;
        END;
    END LOOP;
    RETURN NULL;
END
$fencing$;

-- TRUNCATE does not see rows, and so no resource: it is refused, or warned of.
CREATE OR REPLACE FUNCTION fencing_protect_truncate() RETURNS trigger LANGUAGE plpgsql AS $fencing$
DECLARE
    words text := format('no token presented, %s is protected against TRUNCATE', TG_TABLE_NAME);
BEGIN
    IF TG_ARGV[0] = 'warn' THEN
        RAISE WARNING USING ERRCODE = 'ZF428', MESSAGE = 'fencing, in shadow mode: ' || words;
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'ZF428', MESSAGE = 'fencing: ' || words;
END
$fencing$;

-- fencing_pin(routines): sets the search_path of functions and procedures to the schema where the migrations are applied.
CREATE OR REPLACE FUNCTION fencing_pin(VARIADIC routines text[])
    RETURNS void LANGUAGE plpgsql VOLATILE AS $fencing$
DECLARE
    home text := current_schema();
    routine text;
BEGIN
    IF to_regclass(format('%I.fencing_marks', home)) IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = format(
            'fencing: the table fencing_marks is missing in the schema %I, where its functions '
            'are: apply all migrations under one search_path', home);
    END IF;
    FOREACH routine IN ARRAY routines LOOP
        EXECUTE format('ALTER ROUTINE %I.%s SET search_path = %1$I, pg_temp', home, routine);
    END LOOP;
END
$fencing$;

-- Those that others call.
SELECT fencing_pin('fencing_admit(text, bigint)', 'fencing_compare(text, bigint)', 'fencing_highest(text)',
    'fencing_list(text, bigint)', 'fencing_begin(text, bigint)', 'fencing_protect()',
    'fencing_protect_truncate()');
