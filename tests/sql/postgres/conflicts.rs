//! Conflicts made to order: a trigger fails the first writes of a mark.

use super::setup::*;

/// A database whose first writes of a mark fail with this code. A sequence does not roll
/// back, so that it can count them.
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
    let place = failing(4, "40001").await;
    let marks = SqlMarks::new(place.pool.clone());
    marks.raise(&resource(), token(33)).await.unwrap();
    let place = failing(1000, "40001").await;
    let marks = SqlMarks::new(place.pool.clone());
    let error = marks.raise(&resource(), token(33)).await.unwrap_err();
    assert!(matches!(error, FenceError::Unreachable(_)), "{error:?}");
    let tries = sqlx::query_scalar::<_, i64>("SELECT last_value FROM tries");
    assert_eq!(tries.fetch_one(&place.pool).await.unwrap(), 5);
    let place = failing(1, "XX000").await;
    let marks = SqlMarks::new(place.pool.clone());
    assert!(marks.raise(&resource(), token(33)).await.is_err(), "no conflict, no second try");
}

#[tokio::test]
async fn a_mark_that_does_not_stay_admits_nobody() {
    let place = with(
        "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RETURN NULL; END $$;
        CREATE TRIGGER trap BEFORE INSERT ON fencing_marks
            FOR EACH ROW EXECUTE FUNCTION trap()",
    )
    .await;
    let error = begin(&place.pool, 33).await.unwrap_err();
    assert!(matches!(error, AdmitError::Corrupt { .. }), "{error:?}");
}
