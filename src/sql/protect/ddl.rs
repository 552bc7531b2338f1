use sqlx::{Pool, Transaction};

use crate::database::Database;

/// Opens a transaction that changes triggers.
pub(super) async fn begin<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<Transaction<'static, DB>> {
    pool.begin_with(DB::BEGIN).await
}
