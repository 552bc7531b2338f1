//! Writers on two nodes of a Galera cluster. A lock holds on its own node only: what decides is
//! the certification of each commit, which sees the rows that were changed.

mod others;
mod rounds;
mod ways;

use std::sync::OnceLock;

use sqlx::{MySql, MySqlConnection, MySqlPool};
use support::mariadb::GaleraCluster;
use support::place::mysql::pool;

use crate::mysql::setup::*;
use crate::mysql::suite::writers::{Way, Writer};

static SHARED: OnceLock<GaleraCluster> = OnceLock::new();

/// A database on both nodes, with the fence and two tables of an application.
struct Cluster {
    one: MySqlPool,
    two: MySqlPool,
}

impl Cluster {
    async fn ready() -> Cluster {
        let settings = ["innodb-flush-log-at-trx-commit=0", "innodb-lock-wait-timeout=20"];
        let shared = SHARED.get_or_init(|| GaleraCluster::with(&settings));
        let [one, two] = shared.database().await;
        let cluster = Cluster { one: pool(one), two: pool(two) };
        sql::migrate(&cluster.one).await.unwrap();
        for statement in [
            FILES,
            "CREATE TABLE later (path VARCHAR(255) PRIMARY KEY, body BIGINT NOT NULL)",
            "INSERT INTO later VALUES ('a', 0)",
        ] {
            run(&cluster.one, statement).await;
        }
        cluster.settled().await;
        cluster
    }

    /// A database whose mark is at 33 on both nodes.
    async fn at_33() -> Cluster {
        let cluster = Cluster::ready().await;
        raise(&cluster.one, &resource(), 33).await;
        cluster.settled().await;
        cluster
    }

    /// Waits until each node has applied what the other one has committed.
    async fn settled(&self) {
        for pool in [&self.one, &self.two] {
            let mut conn = pool.acquire().await.unwrap();
            let wait = "SET SESSION wsrep_sync_wait = 15; SELECT 1; SET SESSION wsrep_sync_wait = 0";
            sqlx::raw_sql(wait).execute(&mut *conn).await.unwrap();
        }
    }

    /// Lets the first node fall behind: it applies nothing that the second one commits, until [`Cluster::caught_up`].
    async fn behind(&self) -> MySqlConnection {
        let mut holder = self.one.acquire().await.unwrap().detach();
        sqlx::raw_sql("LOCK TABLES later READ").execute(&mut holder).await.unwrap();
        self.two.execute("UPDATE later SET body = body + 1").await.unwrap();
        holder
    }

    /// Commits on the first node, which goes on once the commit has reached the group; a slower one is refused earlier.
    async fn caught_up<T: Send + 'static>(
        &self,
        mut holder: MySqlConnection,
        commit: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let commit = tokio::spawn(commit);
        tokio::time::sleep(Duration::from_millis(100)).await;
        run(&mut holder, "UNLOCK TABLES").await;
        let committed = commit.await.unwrap();
        self.settled().await;
        committed
    }

    /// The token in the file on a node.
    async fn token(&self, pool: &MySqlPool) -> i64 {
        number(pool, "SELECT token FROM files").await
    }
}
