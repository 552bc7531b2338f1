use std::time::Duration;

use fencing_protocol::{Resource, Token};
use sqlx::{MySql, MySqlConnection};

use crate::database::{Dialect, FenceStatements, Opening};

/// Presents to the triggers of protected tables, for the next statement that writes to one: the text of a
/// [`Sequencer`](crate::sequencer::Sequencer) as bytes. It counts for rows of its resource.
pub const PRESENT: &str = "SET @fencing_sequencer = ?, @fencing_token = NULL";

/// Presents a bare token in the same way: the token. It counts for rows of every resource.
pub const PRESENT_TOKEN: &str = "SET @fencing_token = ?, @fencing_sequencer = NULL";

impl FenceStatements for MySql {
    const BEGIN: &'static str = "START TRANSACTION";

    const ADMIT: &'static str = "CALL fencing_admit({resource}, {token})";

    const ADMIT_IN_SHADOW: &'static str = "
        /*M!100303 SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ CALL fencing_admit({resource}, {token})";

    /// Not in one text with BEGIN: if the second statement were interrupted (`max_statement_time`, KILL QUERY), the
    /// driver would not know that a transaction is open.
    const WRITING: Opening = Opening::new(Self::BEGIN, "CALL fencing_share({resource}, {token})");

    /// MySQL knows no `SET STATEMENT`, and waits as for another admission.
    const BOUNDED: Opening = Opening::new(
        Self::BEGIN,
        "/*M!100303 SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ CALL fencing_admit({resource}, {token})",
    );

    /// A deadlock ends the transaction, and so does a statement that creates a table. The savepoint goes with it.
    const MARK_BEGIN: Option<&'static str> = Some("SAVEPOINT fencing");

    const CHECK_COMMIT: Option<&'static str> = Some("RELEASE SAVEPOINT fencing");

    /// The driver (sqlx 0.9) never gives back a connection on which the preparation of a statement was dropped.
    const GRACE: Duration = Duration::from_secs(2);

    const HIGHEST: &'static str = "SELECT token FROM fencing_marks_base WHERE resource = ?";

    /// A plain read may be old: proxies send it to replicas that look like the primary, and nodes of a cluster lag.
    const NEWEST: Option<&'static str> = None;

    const LIST: &'static str = "
        SELECT HEX(resource), token FROM fencing_marks_base WHERE resource > {after} ORDER BY resource LIMIT {limit}";

    const LOWER: &'static str = "CALL fencing_lower({resource}, {from}, {to})";

    const PRUNABLE: &'static str = "CALL fencing_prunable({seconds}, {highest})";

    const RAISE_FLOOR: &'static str = "
        SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1;
        CALL fencing_raise_floor({to}, {waits})";

    const FLOOR_WAIT_BLOCKS_OTHERS: bool = true;

    const PRUNE: &'static str = "CALL fencing_prune({seconds}, {after}, {limit})";

    /// As text: a preparation that is dropped would end the connection for its pool.
    async fn admit(conn: &mut MySqlConnection, admit: String, _: &Resource, _: Token) -> sqlx::Result<Option<i64>> {
        Self::execute(conn, admit).await.map(|()| None)
    }

    fn present(presented: &str) -> Option<String> {
        Some(match presented.contains(' ') {
            true => PRESENT.replace('?', &MySql::literal(presented)),
            false => PRESENT_TOKEN.replace('?', presented),
        })
    }
}
