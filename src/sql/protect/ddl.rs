use sqlx::{Pool, Transaction};

use crate::database::opening::OpeningTransaction;
use crate::database::{Database, Kind};

/// Opens a transaction that changes triggers. It waits a second at most for others who use the
/// table: everybody who comes later waits behind it.
pub(super) async fn begin<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<Transaction<'static, DB>> {
    let mut conn = pool.acquire().await?;
    if DB::KIND == Kind::MySql {
        // The setting, a day as a rule, and the lock belong to the session.
        conn.close_on_drop();
        // A trigger works in the SQL mode of the session that creates it.
        let set = "SET SESSION lock_wait_timeout = 1,
            sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'";
        DB::execute(&mut conn, set.into()).await?;
    }
    OpeningTransaction::new(conn, DB::BEGIN_BOUNDED.into()).await
}
