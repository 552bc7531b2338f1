//! The transaction that admits several tokens.

use std::sync::Arc;

use fencing::fence::{FenceError, Transactions};
use tokio::sync::Notify;

use super::*;

/// Who waits for an older holder of one of several resources reads what that one has written, on any level.
#[tokio::test]
async fn what_is_read_under_several_is_not_older_than_their_admission() {
    for level in place::DEFAULTS {
        let place = ready().await;
        let pool = place.at(level);
        let b = Resource::new("files/b").unwrap();
        let mut old = sql::begin(&pool, &b, token(33)).await.unwrap();
        let both = [&resource(), &b].map(|it| fencing::Sequencer::new(it.clone(), token(34)));
        let refused = Arc::new(Notify::new());
        let mut new = tokio::spawn({
            let (pool, refused) = (pool.clone(), Arc::clone(&refused));
            async move {
                loop {
                    match Transactions::begin(&pool, &both).await {
                        Err(FenceError::Conflict(_)) => refused.notify_one(),
                        begun => break begun.unwrap(),
                    }
                    pause().await;
                }
            }
        });
        tokio::select! {
            () = place.blocked() => {}
            () = refused.notified() => {}
            _ = &mut new => panic!("{level}: 34 did not wait"),
        }
        run(&mut *old, "UPDATE files SET token = token + 100").await;
        old.commit().await.unwrap();
        let mut new = new.await.unwrap();
        let read = sqlx::query_scalar::<_, i64>("SELECT token FROM files");
        assert_eq!(read.fetch_one(&mut *new).await.unwrap(), 100, "{level}");
        <sqlx::Pool<Db> as Transactions>::commit(new).await.unwrap();
    }
}
