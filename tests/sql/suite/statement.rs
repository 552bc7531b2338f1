//! The statements for other libraries, as they are published.

use super::*;
use place::{ADMIT, HIGHEST, MIGRATIONS};

async fn admit_as_text(tx: &mut Transaction<'_, Db>, number: i64) -> sqlx::Result<()> {
    let resource = resource();
    let admit = sqlx::query(ADMIT).bind(place::name(&resource)).bind(number);
    admit.execute(&mut **tx).await.map(drop)
}

#[tokio::test]
async fn the_published_statement_admits_and_refuses() {
    let place = ready().await;
    for number in [33, 34, 34] {
        let mut tx = place.pool.begin().await.unwrap();
        admit_as_text(&mut tx, number).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = place.pool.begin().await.unwrap();
    let error = admit_as_text(&mut tx, 33).await.unwrap_err();
    let read = sql::stale(&error, &resource(), token(33)).unwrap();
    assert_eq!(
        (read.resource.clone(), read.presented, read.highest),
        (resource(), token(33), token(34))
    );
    assert_eq!(sql::stale(&error, &resource(), token(32)), None, "another token's");
    assert_eq!(stale::<()>(Err(error.into())), read);
    tx.rollback().await.unwrap();

    let resource = resource();
    let look = sqlx::query_scalar::<_, i64>(HIGHEST).bind(place::name(&resource));
    assert_eq!(look.fetch_one(&place.pool).await.unwrap(), 34);
    let nobody = Resource::new("nobody").unwrap();
    let look = sqlx::query_scalar::<_, i64>(HIGHEST).bind(place::name(&nobody));
    assert_eq!(look.fetch_optional(&place.pool).await.unwrap(), None);
}

#[tokio::test]
async fn what_it_admits_stays_until_the_transaction_ends() {
    let place = ready().await;
    // The first contact of the token, and a later one.
    for _ in 0..2 {
        let mut tx = place.pool.begin().await.unwrap();
        admit_as_text(&mut tx, 34).await.unwrap();
        let newer = sql::begin(&place.impatient(), &resource(), token(35)).await;
        retryable(newer);
        write(&mut tx, token(34)).await.unwrap();
        tx.commit().await.unwrap();
    }
    admit(&place, &resource(), 35).await.unwrap();
    assert_eq!(file(&place).await, (34, 0));
}

#[tokio::test]
async fn another_tool_may_apply_the_migrations_twice_and_the_crate_after_it() {
    let place = Place::empty().await;
    for (_, _, statements) in MIGRATIONS.iter().chain(MIGRATIONS) {
        run(&place.pool, statements).await;
    }
    admit(&place, &resource(), 34).await.unwrap();
    sql::migrate(&place.pool).await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(34));
}

#[tokio::test]
async fn a_name_of_any_kind_is_known_again() {
    let place = ready().await;
    let long = "ä".repeat(Resource::MAX_BYTES / 2);
    for name in ["it's \"all\" `of` \\ it", "a, resource b...", &long] {
        let name = Resource::new(name).unwrap();
        raise(&place.pool, &name, 34).await;
        let admit = sqlx::query(ADMIT).bind(place::name(&name)).bind(33_i64);
        let mut tx = place.pool.begin().await.unwrap();
        let error = admit.execute(&mut *tx).await.unwrap_err();
        tx.rollback().await.unwrap();
        let refused = sql::stale(&error, &name, token(33)).expect("it is refused");
        assert_eq!((refused.resource, refused.highest), (name, token(34)));
    }
    for name in ["ä'\\\"`$1;--", "x'41'", "\\x41", "%s ?", "🔒"] {
        let name = Resource::new(name).unwrap();
        raise(&place.pool, &name, 34).await;
        assert_eq!(highest(&place, &name).await, Some(34), "{name}");
        assert_eq!(stale(sql::begin(&place.pool, &name, token(33)).await).resource, name);
    }
}
