//! Through pgbouncer in transaction mode: many clients share two server sessions; each finds what the last left in one.

use std::collections::HashSet;
use std::sync::OnceLock;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use support::postgres::{PgBouncer, PostgresServer};

use super::setup::*;
use super::suite::rounds::no_stale_write_is_accepted;
use super::suite::writers::{Way, Writer};

static SERVER: OnceLock<PostgresServer> = OnceLock::new();

struct Pooled {
    pool: PgPool,
    options: PgConnectOptions,
    direct: PgConnectOptions,
    _pooler: PgBouncer,
}

impl Pooled {
    /// A database behind a pooler. Another program has left statements with names of the driver in both sessions.
    async fn migrated() -> Pooled {
        let settings = ["fsync=off", "max_connections=100", "lock_timeout=20s"];
        let server = SERVER.get_or_init(|| PostgresServer::with(&settings));
        let direct = server.database().await;
        let pooler = PgBouncer::before(server, 2);
        sql::migrate(&pool(&direct)).await.unwrap();
        let options = pooler.on(direct.get_database().unwrap());
        let pooled = Pooled { pool: pool(&options), options, direct, _pooler: pooler };
        // Both at once, so that each has a session.
        let mut both = [pooled.pool.begin().await.unwrap(), pooled.pool.begin().await.unwrap()];
        for tx in &mut both {
            for number in 1..20 {
                let prepare = format!("PREPARE sqlx_s_{number} AS SELECT 'another program'");
                run(&mut **tx, &prepare).await;
            }
        }
        for tx in both {
            tx.commit().await.unwrap();
        }
        pooled
    }
}

fn pool(options: &PgConnectOptions) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(20).acquire_timeout(Duration::from_secs(60));
    pool.connect_lazy_with(options.clone())
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
    run(&pool(&pooled.direct), FILES).await;
    let ways = [Way::Begin, Way::Admit, Way::Layer];
    for number in [33, 33, 33, 34] {
        marks.raise(&resource(), token(number)).await.unwrap();
        for way in ways {
            Writer::new(way).write(&pooled.pool, number).await.unwrap();
        }
    }
    marks.raise(&resource(), token(33)).await.unwrap_err();
    for way in ways {
        stale(Writer::new(way).write(&pooled.pool, 33).await);
    }
    let listed = sql::marks(&pooled.pool, &[], 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].number), (1, Some(34)));
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_acquired_renewed_and_released() {
    let pooled = Pooled::migrated().await;
    let holders = (0..8).map(async |_| {
        let mut tokens = Vec::new();
        let patient = SqlLock::builder(pool(&pooled.options)).ttl(Duration::from_secs(60)).renew(false);
        let lock = patient.budget(Duration::from_secs(20)).wait(Duration::from_secs(60)).build().unwrap();
        for _ in 0..5 {
            let lease = lock.acquire(&resource()).await.unwrap();
            lease.renew().await.unwrap();
            tokens.push(lease.token());
            lease.release().await.unwrap();
        }
        tokens
    });
    let all: HashSet<_> = join_all(holders).await.into_iter().flatten().collect();
    assert_eq!(all.len(), 40);
}

#[tokio::test]
async fn no_stale_write_is_accepted_at_any_level() {
    let pooled = Pooled::migrated().await;
    let direct = pool(&pooled.direct);
    let plays = [(Way::Begin, true), (Way::Admit, false), (Way::Present, true)];
    let table = async |protected| {
        run(&direct, &format!("DROP TABLE IF EXISTS files; {FILES}")).await;
        if protected {
            Protect::rows("files", "path").unwrap().apply(&direct).await.unwrap();
        }
        ((), pooled.pool.clone(), direct.clone())
    };
    no_stale_write_is_accepted(&plays, table).await;
}
