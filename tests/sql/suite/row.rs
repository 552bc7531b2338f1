use fencing::fence::Stale;
use fencing::sql::row::{self, Outcome};
use sqlx::QueryBuilder;

use super::*;
use crate::rounds::{Written, writer};

async fn documents() -> Place {
    with(
        "CREATE TABLE documents (path VARCHAR(255) PRIMARY KEY,
            body VARCHAR(255) NOT NULL, fence_token BIGINT NULL DEFAULT 0);
        INSERT INTO documents (path, body) VALUES ('a', 'old'), ('b', 'old')",
    )
    .await
}

async fn update(place: &Place, path: &str, body: &str, number: u64, reported: bool) -> Outcome {
    let mut update = QueryBuilder::<Db>::new("UPDATE documents SET body = ");
    row::set(update.push_bind(body.to_owned()).push(", "), token(number));
    update.push(" WHERE path = ").push_bind(path.to_owned()).push(" AND ");
    row::unless_newer(&mut update, token(number));
    let done = update.build().execute(&place.pool).await.unwrap();
    let matched = if reported { done.rows_affected() } else { 0 };
    let look = async || {
        let look = place::sql("SELECT fence_token FROM documents WHERE path = $1");
        sqlx::query_scalar(look).bind(path.to_owned()).fetch_optional(&place.pool).await
    };
    Outcome::of(&resource(), token(number), matched, look).await.unwrap()
}

#[tokio::test]
async fn stale_missing_and_done_are_told_apart() {
    let place = documents().await;
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

#[tokio::test]
async fn neighbouring_tokens_race_for_a_row() {
    for &level in LEVELS {
        let place = documents().await;
        for round in 0..10 {
            let (old, new) = (2 * round + 1, 2 * round + 2);
            let attempt = async |number| guarded(&place, level, number).await;
            let (_, new) = tokio::join!(writer(attempt, old), writer(attempt, new));
            assert_eq!(new, Written::Done, "{level}: the newest is never stale");
            assert_eq!(bodies(&place).await[0], (2 * round + 2).to_string(), "{level}");
        }
    }
}

async fn guarded(place: &Place, level: &'static str, number: u64) -> Result<(), AdmitError> {
    pause().await;
    let mut tx = place.pool.begin_with(level).await?;
    let mut update = QueryBuilder::<Db>::new("UPDATE documents SET body = ");
    row::set(update.push_bind(number.to_string()).push(", "), token(number));
    row::unless_newer(update.push(" WHERE path = 'a' AND "), token(number));
    let done = update.build().execute(&mut *tx).await?;
    pause().await;
    tx.commit().await?;
    let newer = Some(token(number + 1)).filter(|_| done.rows_affected() == 0);
    Ok(Stale::check(&resource(), token(number), newer)?)
}

/// As in an HTTP handler, which any thread may run.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_looked_at_in_a_spawned_task() {
    let place = ready().await;
    let (pool, name) = (place.pool.clone(), resource());
    let task = tokio::spawn(async move {
        Outcome::of(&name, token(33), 0, async || {
            let look = sqlx::query_scalar("SELECT token FROM files WHERE path = 'nowhere'");
            look.fetch_optional(&pool).await
        })
        .await
    });
    assert_eq!(task.await.unwrap().unwrap(), Outcome::Missing);
}
