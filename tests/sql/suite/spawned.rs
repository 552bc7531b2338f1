//! What must run in a task that any thread may run, such as an HTTP handler.

use fencing::sql::Retry;
use fencing::sql::row::Outcome;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_retried_in_a_spawned_task() {
    let place = ready().await;
    let (pool, name) = (place.pool.clone(), resource());
    let task = tokio::spawn(async move {
        sql::retry(Retry::new(), || async {
            let mut tx = sql::begin(&pool, &name, token(33)).await?;
            write(&mut tx, token(33)).await?;
            tx.commit().await?;
            Ok::<_, AdmitError>(33)
        })
        .await
    });
    assert_eq!(task.await.unwrap().unwrap(), 33);
    assert_eq!(file(&place).await, (33, 0));
}

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
