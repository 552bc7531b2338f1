//! A user who may not create anything.

use fencing::sql::{self, MigrateError};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Executor, MySqlPool};

use super::place::Place;

/// A pool of a user of its own, after these GRANTs.
async fn user(place: &Place, grants: &[&str]) -> MySqlPool {
    let options = (*place.pool.connect_options()).clone();
    let user = format!("writer_{}", options.get_database().unwrap());
    let create = format!("CREATE USER {user}@localhost");
    place.pool.execute(AssertSqlSafe(create)).await.unwrap();
    for grant in grants {
        let grant = format!("GRANT {grant} TO {user}@localhost");
        place.pool.execute(AssertSqlSafe(grant)).await.unwrap();
    }
    MySqlPoolOptions::new().connect_lazy_with(options.username(&user))
}

const READS: &str = "SELECT ON _fencing_migrations";

#[tokio::test]
async fn who_may_only_read_and_execute_may_migrate_where_nothing_is_to_be_done() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    // Who has a right to some procedures sees no others, and that does not mean that they are lost.
    let locks = [READS, "EXECUTE ON PROCEDURE fencing_lease_acquire"];
    sql::migrate(&user(&place, &locks).await).await.unwrap();
    let change = "UPDATE _fencing_migrations SET checksum = ''";
    place.pool.execute(change).await.unwrap();
    let name = place.pool.connect_options().get_database().unwrap().to_owned();
    let options = (*place.pool.connect_options()).clone().username(&format!("writer_{name}"));
    sql::migrate(&MySqlPoolOptions::new().connect_lazy_with(options)).await.unwrap_err();
}

#[tokio::test]
async fn who_may_execute_all_is_told_of_one_that_is_lost() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let name = place.pool.connect_options().get_database().unwrap().to_owned();
    let execute = format!("EXECUTE ON {name}.*");
    let pool = user(&place, &[READS, &execute]).await;
    sql::migrate(&pool).await.unwrap();
    place.pool.execute("DROP PROCEDURE fencing_hold").await.unwrap();
    let error = sql::migrate(&pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Lost { .. }), "{error:?}");
    assert!(error.to_string().contains("fencing_hold"), "{error}");
}

/// As a dump without --routines leaves it.
#[tokio::test]
async fn who_sees_no_procedure_is_told_that_they_are_lost() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let routines = "SELECT CAST(routine_name AS CHAR) FROM information_schema.routines
        WHERE routine_schema = DATABASE()";
    for name in sqlx::query_scalar::<_, String>(routines).fetch_all(&place.pool).await.unwrap() {
        let drop = format!("DROP PROCEDURE {name}");
        place.pool.execute(AssertSqlSafe(drop)).await.unwrap();
    }
    let pool = user(&place, &[READS]).await;
    for pool in [&pool, &place.pool] {
        let error = sql::migrate(pool).await.unwrap_err();
        assert!(matches!(error, MigrateError::Lost { .. }), "{error:?}");
        assert!(error.to_string().contains("fencing_lease_renew"), "{error}");
    }
}
