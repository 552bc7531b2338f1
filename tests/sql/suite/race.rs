use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::*;

/// Runs a guarded transaction until it is through or stale.
async fn client(place: &Place, level: &'static str, token: Token, refused: &Notify) -> bool {
    loop {
        let mut tx = match place.pool.begin_with(level).await {
            Ok(tx) => tx,
            Err(error) if place::conflict(&error) => {
                refused.notify_one();
                continue;
            }
            Err(error) => panic!("{level}: {error}"),
        };
        pause().await;
        match sql::admit(&mut tx, &resource(), token).await {
            Ok(()) => {}
            Err(AdmitError::Stale(stale)) => {
                assert!(stale.highest > token, "{stale}");
                return false;
            }
            Err(AdmitError::Retryable(_)) => {
                drop(tx);
                refused.notify_one();
                pause().await;
                continue;
            }
            Err(error) => panic!("{level}: {error:?}"),
        }
        pause().await;
        let done = match write(&mut tx, token).await {
            Ok(()) => {
                pause().await;
                tx.commit().await
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => return true,
            Err(error) => assert!(place::conflict(&error), "{level}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_newer_token_waits_for_one_that_is_paused_after_its_check() {
    for &level in LEVELS {
        // At its first contact, and with a mark that it has found equal.
        for before in [32, 33] {
            let place = Arc::new(ready().await);
            admit(&place, &resource(), before).await.unwrap();
            let mut old = place.pool.begin_with(level).await.unwrap();
            sql::admit(&mut old, &resource(), token(33)).await.unwrap();
            let refused = Arc::new(Notify::new());
            let mut new = tokio::spawn({
                let (place, refused) = (Arc::clone(&place), Arc::clone(&refused));
                async move { client(&place, level, token(34), &refused).await }
            });
            tokio::select! {
                () = place.blocked() => {}
                () = refused.notified() => {}
                _ = &mut new => panic!("{level}, mark {before}: 34 did not wait"),
            }
            assert_eq!(file(&place).await.0, 0);
            write(&mut old, token(33)).await.unwrap();
            old.commit().await.unwrap();
            assert!(new.await.unwrap());
            assert_eq!(file(&place).await, (34, 0), "{level}, mark {before}");
            assert!(!client(&place, level, token(33), &Notify::new()).await);
        }
    }
}

#[tokio::test]
async fn many_with_growing_tokens_write_nothing_late() {
    for &level in LEVELS {
        let place = Arc::new(ready().await);
        let next = Arc::new(AtomicU64::new(1));
        let clients = (0..6).map(|_| {
            let (place, next) = (Arc::clone(&place), Arc::clone(&next));
            tokio::spawn(async move {
                for _ in 0..6 {
                    // Each token is used twice, as a holder that writes twice does.
                    let token = token(next.fetch_add(1, Ordering::SeqCst));
                    pause().await;
                    client(&place, level, token, &Notify::new()).await;
                    client(&place, level, token, &Notify::new()).await;
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        assert_eq!(highest(&place, &resource()).await, Some(36), "{level}");
        assert_eq!(file(&place).await, (36, 0), "{level}");
    }
}

#[tokio::test]
async fn many_may_make_the_first_contact_at_once() {
    for &level in LEVELS {
        let place = Arc::new(ready().await);
        // Two of each token.
        let clients = (0..16).map(|number| {
            let place = Arc::clone(&place);
            let token = token(number / 2 + 1);
            tokio::spawn(async move { client(&place, level, token, &Notify::new()).await })
        });
        let mut done = Vec::new();
        for client in clients.collect::<Vec<_>>() {
            done.push(client.await.unwrap());
        }
        assert_eq!(done[14..], [true, true], "{level}: the newest is never stale");
        assert_eq!(file(&place).await, (8, 0), "{level}");
        assert_eq!(highest(&place, &resource()).await, Some(8), "{level}");
    }
}

#[tokio::test]
async fn a_conflict_says_nothing_of_the_token() {
    let place = ready().await;
    let mut old = place.pool.begin().await.unwrap();
    sql::admit(&mut old, &resource(), token(33)).await.unwrap();
    let bounded = place.impatient();
    retryable(sql::begin(&bounded, &resource(), token(34)).await);
    retryable(sql::begin(&bounded, &resource(), token(32)).await);
    old.rollback().await.unwrap();
    sql::begin(&bounded, &resource(), token(32)).await.unwrap();
}
