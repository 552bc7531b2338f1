//! Marks of a fence on a replica that is behind, and after conflicts made to order.

use sqlx::postgres::PgPoolOptions;
use support::postgres::PostgresServer;

use super::setup::*;

/// As where a proxy sends reads to a replica.
#[tokio::test]
async fn a_replica_that_is_behind_passes_no_token() {
    let server = PostgresServer::with(&["fsync=off"]);
    let options = server.database().await;
    let primary = PgPoolOptions::new().connect_lazy_with(options.clone());
    sql::migrate(&primary).await.unwrap();
    let marks = SqlMarks::new(primary.clone());
    marks.raise(&resource(), token(33)).await.unwrap();

    let standby = server.standby();
    let replica = PgPoolOptions::new().connect_lazy_with(standby.on(options.get_database().unwrap()));
    // It has copied 33, and stops there.
    run(&replica, "SELECT pg_wal_replay_pause()").await;
    marks.raise(&resource(), token(34)).await.unwrap();
    assert_eq!(sql::highest(&replica, &resource()).await.unwrap(), Some(token(33)));
    SqlMarks::new(replica).raise(&resource(), token(33)).await.unwrap_err();
    assert!(marks.raise(&resource(), token(33)).await.unwrap_err().to_string().contains("stale"));
}

/// A database whose first writes of a mark fail with this code. A sequence does not roll back, so it can count them.
async fn failing(times: u32, code: &str) -> Place {
    with(&format!(
        "CREATE SEQUENCE tries;
        CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('tries') <= {times} THEN
                RAISE EXCEPTION 'to order' USING ERRCODE = '{code}';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER trap BEFORE INSERT ON fencing_marks
            FOR EACH ROW EXECUTE FUNCTION trap()"
    ))
    .await
}

#[tokio::test]
async fn marks_try_again_after_a_conflict_and_give_up_after_some() {
    let raised = async |times, code| {
        let place = failing(times, code).await;
        let raised = SqlMarks::new(place.pool.clone()).raise(&resource(), token(33)).await;
        (raised, number(&place.pool, "SELECT last_value FROM tries").await)
    };
    raised(4, "40001").await.0.unwrap();
    let (refused, tries) = raised(1000, "40001").await;
    assert!(matches!(refused, Err(FenceError::Unreachable(_))), "{refused:?}");
    assert_eq!(tries, 5);
    assert!(raised(1, "XX000").await.0.is_err(), "no conflict, no second try");
}

#[tokio::test]
async fn a_mark_that_does_not_stay_admits_nobody() {
    let trap = "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
        CREATE TRIGGER trap BEFORE INSERT ON fencing_marks FOR EACH ROW EXECUTE FUNCTION trap()";
    let place = with(trap).await;
    let error = begin(&place.pool, 33).await.unwrap_err();
    assert!(matches!(error, AdmitError::Corrupt { .. }), "{error:?}");
}
