//! A replica that lags, and is promoted.

use sqlx::PgPool;
use support::postgres::PostgresServer;

use super::place::pool;
use crate::common::*;

/// A standby that has been cut off.
pub struct Replica {
    pub pool: PgPool,
    _server: PostgresServer,
}

async fn run(pool: &PgPool, statement: &'static str) {
    sqlx::query(statement).execute(pool).await.unwrap();
}

impl Replica {
    pub async fn of(primary: &PostgresServer, database: &PgPool) -> Replica {
        let server = primary.standby();
        let pool = pool(server.on(database.connect_options().get_database().unwrap()));
        run(&pool, "ALTER SYSTEM SET primary_conninfo = ''").await;
        run(&pool, "SELECT pg_reload_conf()").await;
        until("it is cut off", async || {
            let receivers = sqlx::query_scalar("SELECT count(*) FROM pg_stat_wal_receiver");
            receivers.fetch_one(&pool).await.unwrap_or(1_i64) == 0
        })
        .await;
        Replica { pool, _server: server }
    }

    pub async fn promote(&self, primary: &mut PostgresServer) {
        primary.kill();
        run(&self.pool, "SELECT pg_promote()").await;
    }
}
