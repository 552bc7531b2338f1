use fencing::sql::row;
use fencing::sql::row::Outcome;
use sqlx::QueryBuilder;

use super::*;

async fn update(place: &Place, path: &str, body: &str, number: u64, reported: bool) -> Outcome {
    let mut update = QueryBuilder::<Db>::new("UPDATE documents SET body = ");
    row::set(update.push_bind(body.to_owned()).push(", "), token(number));
    update.push(" WHERE path = ").push_bind(path.to_owned()).push(" AND ");
    row::unless_newer(&mut update, token(number));
    let done = update.build().execute(&place.pool).await.unwrap();
    let matched = if reported { done.rows_affected() } else { 0 };
    let (pool, path) = (place.pool.clone(), path.to_owned());
    // As in an HTTP handler, which any thread may run.
    let outcome = tokio::spawn(async move {
        Outcome::of(&resource(), token(number), matched, async || {
            let look = place::sql("SELECT fence_token FROM documents WHERE path = $1");
            sqlx::query_scalar(look).bind(path.clone()).fetch_optional(&pool).await
        })
        .await
    });
    outcome.await.unwrap().unwrap()
}

#[tokio::test]
async fn stale_missing_and_done_are_told_apart() {
    let documents = "CREATE TABLE documents (path VARCHAR(255) PRIMARY KEY,
            body VARCHAR(255) NOT NULL, fence_token BIGINT NULL DEFAULT 0);
        INSERT INTO documents (path, body) VALUES ('a', 'old'), ('b', 'old')";
    let place = with(documents).await;
    assert_eq!(update(&place, "a", "33", 33, true).await, Outcome::Done);
    assert_eq!(update(&place, "a", "34", 34, true).await, Outcome::Done);
    // Rewriting what is there is done as well, however the database counts.
    assert_eq!(update(&place, "a", "34", 34, true).await, Outcome::Done);
    assert_eq!(update(&place, "a", "34", 34, false).await, Outcome::Done);
    // So is another write of the same token.
    assert_eq!(update(&place, "a", "34, again", 34, true).await, Outcome::Done);
    assert_eq!(bodies(&place).await[0], "34, again");
    for _ in 0..2 {
        let Outcome::Stale(stale) = update(&place, "a", "33", 33, true).await else { panic!() };
        assert_eq!((stale.presented, stale.highest), (token(33), token(34)));
    }
    assert_eq!(bodies(&place).await[0], "34, again");
    assert_eq!(update(&place, "c", "34", 34, true).await, Outcome::Missing);
    // Another row has a token of its own.
    assert_eq!(update(&place, "b", "1", 1, true).await, Outcome::Done);
    run(&place.pool, "UPDATE documents SET fence_token = NULL").await;
    assert_eq!(update(&place, "a", "35", 35, true).await, Outcome::Unmatched);
}
