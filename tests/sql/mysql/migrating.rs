//! A user who may not create anything.

use sqlx::MySqlPool;
use sqlx::mysql::MySqlPoolOptions;

use super::setup::*;

/// A pool of a user of its own, who may read the migrations, and these procedures.
async fn user(place: &Place, procedures: &str) -> MySqlPool {
    let options = (*place.pool.connect_options()).clone();
    let user = format!("writer_{}", options.get_database().unwrap());
    let create = format!("CREATE USER {user}@localhost");
    let read = format!("GRANT SELECT ON _fencing_migrations TO {user}@localhost");
    let execute = procedures.replace("$user", &format!("{user}@localhost"));
    run(&place.pool, &format!("{create}; {read}; {execute}")).await;
    MySqlPoolOptions::new().connect_lazy_with(options.username(&user))
}

#[tokio::test]
async fn who_may_execute_all_is_told_of_one_that_is_lost() {
    let place = migrated().await;
    let name = place.pool.connect_options().get_database().unwrap().to_owned();
    let pool = user(&place, &format!("GRANT EXECUTE ON {name}.* TO $user")).await;
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
    for pool in [&user(&place, "").await, &place.pool] {
        is_lost(pool, "fencing_lease_renew").await;
    }
}
