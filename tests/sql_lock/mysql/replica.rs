//! What a replica that lags, and is promoted, would have.

use sqlx::MySqlPool;
use support::mariadb::MariadbServer;

/// The rows and the number of the server are set back by hand.
pub struct Replica {
    pub pool: MySqlPool,
}

impl Replica {
    async fn run(&self, statement: &'static str) {
        sqlx::raw_sql(statement).execute(&self.pool).await.unwrap();
    }

    pub async fn of(_: &MariadbServer, database: &MySqlPool) -> Replica {
        let replica = Replica { pool: database.clone() };
        replica.run("CREATE TABLE replica AS SELECT * FROM fencing_leases").await;
        replica
    }

    pub async fn promote(&self, _: &mut MariadbServer) {
        self.run("REPLACE INTO fencing_leases SELECT * FROM replica").await;
        self.run("SET GLOBAL server_id = 7").await;
    }
}
