use fencing_protocol::{Resource, Token};
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};

use crate::database::{Dialect, FenceStatements, Opening};

/// Presents to the triggers of protected tables until the transaction ends: the text of a
/// [`Sequencer`](crate::sequencer::Sequencer), for rows of its resource, or a token in digits, for all.
pub const PRESENT: &str = "SELECT set_config('fencing.sequencer',
    '@' || extract(epoch FROM transaction_timestamp()) || ' ' || $1, true)";

impl FenceStatements for Postgres {
    const BEGIN: &'static str = "BEGIN";

    /// As `fencing_admit`, but it refuses without an error, which would end the transaction.
    const ADMIT: &'static str = "SELECT fencing_compare({resource}, {token})";

    const ADMIT_IN_SHADOW: &'static str = "
        SELECT FROM set_config('fencing.patience', current_setting('lock_timeout'), true);
        SET LOCAL lock_timeout = 10;
        SELECT fencing_compare({resource}, {token});
        SELECT FROM set_config('lock_timeout', current_setting('fencing.patience'), true)";

    /// The text is an implicit transaction. A refusal ends it; otherwise BEGIN turns it into an explicit one.
    const WRITING: Opening = Opening { begin: "CALL fencing_begin({resource}, {token}); BEGIN", admit: None };

    const RAISING: Opening = Opening::new("BEGIN ISOLATION LEVEL READ COMMITTED", Self::ADMIT);

    const BOUNDED: Opening = Opening::new("BEGIN; SET LOCAL lock_timeout = 1000", Self::ADMIT);

    /// COMMIT answers with success after a statement has failed, but rolls back. A SAVEPOINT fails then.
    const CHECK_COMMIT: Option<&'static str> = Some("SAVEPOINT fencing");

    const HIGHEST: &'static str = "SELECT token FROM fencing_highest($1)";

    /// A replica raises no marks, and is behind the server that does.
    const NEWEST: Option<&'static str> = Some("SELECT token FROM fencing_highest($1) WHERE NOT pg_is_in_recovery()");

    const LIST: &'static str = "
        SELECT encode(convert_to(resource, 'UTF8'), 'hex'), token FROM fencing_list({after}, {limit})";

    const LOWER: &'static str = "SET LOCAL lock_timeout = 10000; SELECT fencing_lower({resource}, {from}, {to})";

    const PRUNABLE: &'static str = "
        SELECT marks, floor, encode(convert_to(resource, 'UTF8'), 'hex'), token
        FROM fencing_prunable({seconds}, {highest})";

    const RAISE_FLOOR: &'static str = "
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 1000;
        SELECT fencing_raise_floor({to})";

    const PRUNE: &'static str = "
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 1000;
        SELECT pruned, encode(convert_to(last, 'UTF8'), 'hex') FROM fencing_prune({seconds}, {after}, {limit})";

    /// As `fencing_begin` does. A session with a temporary table may have one with this name.
    const MARK_CONDITION: Option<&'static str> = Some(
        "EXISTS (SELECT FROM fencing_marks WHERE resource = ${resource}
            AND CASE WHEN token = ${token} AND pg_my_temp_schema() = 0
                THEN pg_advisory_xact_lock_shared(hashtextextended(resource, 28548280319532647)) IS NOT NULL END
            FOR SHARE)",
    );

    async fn admit(conn: &mut PgConnection, admit: String, _: &Resource, _: Token) -> sqlx::Result<Option<i64>> {
        let rows = sqlx::raw_sql(AssertSqlSafe(admit)).fetch_all(conn).await?;
        rows.iter().find(|row| !row.is_empty()).ok_or(sqlx::Error::RowNotFound)?.try_get(0)
    }

    fn present(presented: &str) -> Option<String> {
        Some(PRESENT.replace("$1", &Postgres::literal(presented)))
    }
}
