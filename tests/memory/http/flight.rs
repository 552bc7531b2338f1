//! What an older request is told when a newer one comes, and what the newer one is told that waits for it.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_fence_that_drops_older_requests_answers_them_as_in_doubt() {
    let (app, _) = slow(fence().drop_older_after(Duration::ZERO));
    let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
    tokio::task::yield_now().await;
    assert_eq!(write(&app, 34).await.status(), 200);
    let older = older.await.unwrap().unwrap();
    // It was with its handler: whether that had written is not for the layer to say.
    assert_eq!(older.status(), 503);
    assert!(older.headers().get("retry-after").is_none(), "of no use");
    let found = problem(older).await;
    assert_eq!((found.kind.as_str(), found.stale()), (Problem::SUPERSEDED, None));
    assert_eq!((found.presented, found.highest), (Some(token(33)), Some(token(34))));
}

/// Its write is done when the newer token comes, and only its answer is not told yet.
#[tokio::test(start_paused = true)]
async fn an_older_request_that_has_ended_is_answered_as_it_ended() {
    let fence = fence().drop_older_after(Duration::ZERO);
    let (app, go) = slow(fence.clone());
    let older = begun(app.oneshot(request("PUT", &["33"])));
    go.notify_one();
    let resource = file();
    let newer = begun(fence.admit(&resource, token(34)));
    assert_eq!(older.await.unwrap().status(), 200);
    assert!(newer.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_older_request_that_never_ends_is_a_503_for_the_newer() {
    let (app, _) = slow(fence().limit(Duration::from_secs(1)));
    let _older = begun(app.clone().oneshot(request("PUT", &["33"])));
    assert!(refused(write(&app, 34).await, 503).await.detail.contains("a request with token 33"));
}
