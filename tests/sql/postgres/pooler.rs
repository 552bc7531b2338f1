//! Through pgbouncer in transaction mode: many clients share two sessions of the server, and
//! what a client leaves in one the next client finds there.

use std::collections::HashSet;
use std::time::Duration;

use fencing::fence::Marks;
use fencing::lock::sql::SqlLock;
use fencing::sql::{self, AdmitError, Protect, Retry, SqlMarks};
use fencing::{Sequencer, Token};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};
use support::pgbouncer::PgBouncer;
use support::postgres::PostgresServer;

use super::place::LEVELS;
use super::setup::{by_path, number, raise, run};
use super::suite::rounds::{Way, attempt_write};
use crate::common::{below, pause, resource, stale, token};
use crate::rounds::{refused, rounds};

struct Pooled {
    pool: PgPool,
    options: PgConnectOptions,
    direct: PgConnectOptions,
    _pooler: PgBouncer,
    _server: PostgresServer,
}

impl Pooled {
    /// A database behind a pooler. Another program has left statements with names of the driver
    /// in both sessions.
    async fn migrated() -> Pooled {
        let server =
            PostgresServer::with(&["fsync=off", "max_connections=100", "lock_timeout=20s"]);
        let direct = server.database().await;
        let pooler = PgBouncer::before(&server, 2);
        sql::migrate(&pool(&direct)).await.unwrap();
        let files = "CREATE TABLE papers (path text PRIMARY KEY, body bigint NOT NULL);
            INSERT INTO papers SELECT n::text, 0 FROM generate_series(0, 9) AS n";
        sqlx::raw_sql(files).execute(&pool(&direct)).await.unwrap();
        let options = pooler.on(direct.get_database().unwrap());
        let pooled =
            Pooled { pool: pool(&options), options, direct, _pooler: pooler, _server: server };
        let (mut one, mut two) =
            (pooled.pool.begin().await.unwrap(), pooled.pool.begin().await.unwrap());
        for tx in [&mut one, &mut two] {
            for number in 1..20 {
                run(&mut **tx, &format!("PREPARE sqlx_s_{number} AS SELECT 'another program'"))
                    .await;
            }
        }
        one.commit().await.unwrap();
        two.commit().await.unwrap();
        pooled
    }

    /// A pool as another process would have it.
    fn other(&self) -> PgPool {
        pool(&self.options)
    }
}

fn pool(options: &PgConnectOptions) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(20).acquire_timeout(Duration::from_secs(60));
    pool.connect_lazy_with(options.clone())
}

fn write(path: usize, body: u64) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("UPDATE papers SET body = {body} WHERE path = '{path}'"))
}

/// The driver's migrations name their statements. Migrate over a connection of its own.
#[tokio::test]
async fn to_migrate_fails_and_leaves_nothing_behind() {
    let pooled = Pooled::migrated().await;
    let error = sql::migrate(&pooled.pool).await.unwrap_err();
    assert!(error.to_string().contains("prepared statement"), "{error}");
    raise(&pooled.pool, &resource(), 33).await;
    let direct = pool(&pooled.direct);
    tokio::time::timeout(Duration::from_secs(60), sql::migrate(&direct)).await.unwrap().unwrap();
}

#[tokio::test]
async fn marks_and_transactions_are_fenced() {
    let pooled = Pooled::migrated().await;
    let marks = SqlMarks::new(pooled.pool.clone());
    for _ in 0..3 {
        marks.raise(&resource(), token(33)).await.unwrap();
        let mut tx = pooled.pool.begin().await.unwrap();
        sql::admit(&mut tx, &resource(), token(33)).await.unwrap();
        sql::present(&mut tx, token(33)).await.unwrap();
        tx.commit().await.unwrap();
        raise(&pooled.pool, &resource(), 33).await;
    }
    marks.raise(&resource(), token(34)).await.unwrap();
    marks.raise(&resource(), token(33)).await.unwrap_err();
    stale(sql::begin(&pooled.pool, &resource(), token(33)).await);
    let mut tx = pooled.pool.begin().await.unwrap();
    stale(sql::admit(&mut tx, &resource(), token(33)).await);
    tx.rollback().await.unwrap();
    assert_eq!(sql::highest(&pooled.pool, &resource()).await.unwrap(), Some(token(34)));
    let listed = sql::marks(&pooled.pool, &[], 10).await.unwrap();
    assert_eq!(listed.len(), 1);
}

/// Each client has a token and a file of its own, and every other one presents none.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_writes_by_the_token_of_another() {
    let pooled = Pooled::migrated().await;
    by_path("papers").apply(&pooled.pool).await.unwrap();
    let clients = (0..10).map(|path| {
        let pool = pooled.other();
        tokio::spawn(async move {
            for round in 0..20 {
                let presents = below(2) == 0;
                let mut tx = pool.begin().await.unwrap();
                let number = 1 + round * 10 + path as u64;
                if presents {
                    sql::present(&mut tx, token(number)).await.unwrap();
                }
                pause().await;
                let written = sqlx::raw_sql(write(path, number)).execute(&mut *tx).await;
                match (presents, written.map_err(AdmitError::from)) {
                    (true, Ok(_)) => tx.commit().await.unwrap(),
                    (false, Err(AdmitError::Unpresented(_))) => tx.rollback().await.unwrap(),
                    (_, other) => panic!("presented {presents}: {other:?}"),
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let foreign = "SELECT count(*) FROM papers, fencing_marks
        WHERE resource = 'files/' || path AND token <> body";
    let foreign = sqlx::query_scalar::<_, i64>(foreign).persistent(false);
    let mut tx = pooled.pool.begin().await.unwrap();
    assert_eq!(foreign.fetch_one(&mut *tx).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_acquired_renewed_and_released() {
    let pooled = Pooled::migrated().await;
    let holders = (0..8).map(|_| {
        let lock = SqlLock::builder(pooled.other()).wait(Duration::from_secs(60)).renew(false);
        let lock = lock.build().unwrap();
        let pool = pooled.other();
        tokio::spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..5 {
                let lease = lock.acquire(&resource()).await.unwrap();
                lease.renew().await.unwrap();
                let number = lease.token();
                let attempt = || async {
                    let mut tx = sql::begin(&pool, &resource(), number).await?;
                    sqlx::raw_sql(write(0, number.get())).execute(&mut *tx).await?;
                    tx.commit().await?;
                    Ok::<_, AdmitError>(())
                };
                sql::retry(Retry::new(), attempt).await.unwrap();
                tokens.push(number);
                lease.release().await.unwrap();
            }
            tokens
        })
    });
    let mut all = HashSet::new();
    for holder in holders.collect::<Vec<_>>() {
        all.extend(holder.await.unwrap());
    }
    assert_eq!(all.len(), 40);
}

/// Refused, and landed on top of a newer token's write.
async fn play(pooled: &Pooled, level: &'static str, way: Way, rounds: u64) -> (u64, i64) {
    let direct = pool(&pooled.direct);
    let files = "DROP TABLE IF EXISTS files;
        CREATE TABLE files (path text PRIMARY KEY, token bigint NOT NULL, late bigint NOT NULL);
        INSERT INTO files VALUES ('files/a', 0, 0)";
    run(&direct, files).await;
    let protected = matches!(way, Way::Begin | Way::Present);
    if protected {
        Protect::rows("files", "path").unwrap().apply(&direct).await.unwrap();
    }
    let before = sql::highest(&direct, &resource()).await.unwrap().map_or(0, Token::get);
    let refused = refused(rounds, async |number| {
        let own = Sequencer::new(resource(), token(before + number));
        attempt_write(&pooled.pool, Some(level), &own, way, protected).await
    });
    let refused = refused.await;
    (refused, number(&direct, "SELECT late FROM files").await)
}

#[tokio::test]
async fn no_stale_write_is_accepted_at_any_level() {
    let pooled = Pooled::migrated().await;
    let rounds = rounds();
    for &level in LEVELS {
        for way in [Way::Begin, Way::Admit, Way::Present] {
            // It begins at the default level.
            if way == Way::Begin && level != LEVELS[0] {
                continue;
            }
            let (refused, late) = play(&pooled, level, way, rounds).await;
            println!(
                "pooled: {level}: {way:?}: {rounds} rounds, {refused} refused, {late} stale writes"
            );
            assert_eq!(late, 0, "{level} {way:?}");
        }
        let few = rounds.clamp(100, 1000);
        let (_, late) = play(&pooled, level, Way::Unfenced, few).await;
        println!("pooled: {level}: unguarded: {few} rounds, {late} stale writes");
        assert!(late > 0, "{level}: without the guard nothing went wrong: nothing was tested");
    }
}
