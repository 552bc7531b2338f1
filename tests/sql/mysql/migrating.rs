//! A user who may not create anything.

use fencing::sql;
use sqlx::MySqlPool;
use sqlx::mysql::MySqlPoolOptions;

use super::place::Place;
use super::setup::{is_lost, migrated, run};

/// A pool of a user of its own, after these GRANTs.
async fn user(place: &Place, grants: &[&str]) -> MySqlPool {
    let options = (*place.pool.connect_options()).clone();
    let user = format!("writer_{}", options.get_database().unwrap());
    run(&place.pool, &format!("CREATE USER {user}@localhost")).await;
    for grant in grants {
        run(&place.pool, &format!("GRANT {grant} TO {user}@localhost")).await;
    }
    MySqlPoolOptions::new().connect_lazy_with(options.username(&user))
}

const READS: &str = "SELECT ON _fencing_migrations";

#[tokio::test]
async fn who_may_only_read_and_execute_may_migrate_where_nothing_is_to_be_done() {
    let place = migrated().await;
    // Who has a right to some procedures sees no others, and that does not mean that they are lost.
    let locks = [READS, "EXECUTE ON PROCEDURE fencing_lease_acquire"];
    let pool = user(&place, &locks).await;
    sql::migrate(&pool).await.unwrap();
    run(&place.pool, "UPDATE _fencing_migrations SET checksum = ''").await;
    sql::migrate(&pool).await.unwrap_err();
}

#[tokio::test]
async fn who_may_execute_all_is_told_of_one_that_is_lost() {
    let place = migrated().await;
    let name = place.pool.connect_options().get_database().unwrap().to_owned();
    let execute = format!("EXECUTE ON {name}.*");
    let pool = user(&place, &[READS, &execute]).await;
    sql::migrate(&pool).await.unwrap();
    run(&place.pool, "DROP PROCEDURE fencing_hold").await;
    is_lost(&pool, "fencing_hold").await;
}

/// As a dump without --routines leaves it.
#[tokio::test]
async fn who_sees_no_procedure_is_told_that_they_are_lost() {
    let place = migrated().await;
    let routines = "SELECT CAST(routine_name AS CHAR) FROM information_schema.routines
        WHERE routine_schema = DATABASE()";
    for name in sqlx::query_scalar::<_, String>(routines).fetch_all(&place.pool).await.unwrap() {
        run(&place.pool, &format!("DROP PROCEDURE {name}")).await;
    }
    let pool = user(&place, &[READS]).await;
    for pool in [&pool, &place.pool] {
        is_lost(pool, "fencing_lease_renew").await;
    }
}
