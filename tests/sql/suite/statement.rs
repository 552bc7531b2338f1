//! The statements for other libraries, as they are published.

use place::{ADMIT, HIGHEST};

use super::*;

#[tokio::test]
async fn what_the_published_statements_say_is_read() {
    let place = ready().await;
    raise(&place.pool, &resource(), 34).await;
    let (own, nobody) = (resource(), named("nobody"));
    let admit = sqlx::query(ADMIT).bind(place::name(&own)).bind(33_i64);
    let error = admit.execute(&mut *place.pool.begin().await.unwrap()).await.unwrap_err();
    let read = sql::stale(&error, &own, token(33)).unwrap();
    assert_eq!((&read.resource, read.presented, read.highest), (&own, token(33), token(34)));
    assert_eq!(sql::stale(&error, &own, token(32)), None, "another token's");
    assert_eq!(stale::<()>(Err(error.into())), read);
    for (name, mark) in [(&own, Some(34)), (&nobody, None)] {
        let look = sqlx::query_scalar::<_, i64>(HIGHEST).bind(place::name(name));
        assert_eq!(look.fetch_optional(&place.pool).await.unwrap(), mark);
    }
}

#[tokio::test]
async fn a_name_of_any_kind_is_known_again() {
    let place = ready().await;
    let long = "ä".repeat(Resource::MAX_BYTES / 2);
    let quoted = ["it's \"all\" `of` \\ it", "a, resource b...", "ä'\\\"`$1;--", "x'41'", "\\x41"];
    for name in quoted.into_iter().chain(["%s ?", &long, "🔒"]) {
        let name = named(name);
        raise(&place.pool, &name, 34).await;
        assert_eq!(highest(&place, &name).await, Some(34), "{name}");
        assert_eq!(stale(sql::begin(&place.pool, &name, token(33)).await).resource, name);
        // The messages of MySQL have no character of four bytes.
        if name.as_str() == "🔒" {
            continue;
        }
        let admit = sqlx::query(ADMIT).bind(place::name(&name)).bind(33_i64);
        let error = admit.execute(&mut *place.pool.begin().await.unwrap()).await.unwrap_err();
        let refused = sql::stale(&error, &name, token(33)).expect("it is refused");
        assert_eq!((refused.resource, refused.highest), (name, token(34)));
    }
}
