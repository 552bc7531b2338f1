//! What a dump may lose, or a hand.

use fencing::sql::MigrateError;

use super::*;

#[tokio::test]
async fn what_is_lost_is_named_and_comes_back_and_no_mark_is_changed() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    admit(&place, &resource(), 34).await.unwrap();
    sqlx::raw_sql(place::LOSE).execute(&place.pool).await.unwrap();
    for _ in 0..2 {
        let error = sql::migrate(&place.pool).await.unwrap_err();
        assert!(matches!(error, MigrateError::Lost { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(place::LOST) && text.contains("_fencing_migrations"), "{text}");
        assert!(text.matches("fencing_").count() == 2, "names what is there: {text}");
    }
    sqlx::query("DELETE FROM _fencing_migrations").execute(&place.pool).await.unwrap();
    sql::migrate(&place.pool).await.unwrap();
    stale(admit(&place, &resource(), 33).await);
}
