//! A request is in flight from its admission to the end of its response.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_newer_request_reaches_the_handler_when_the_older_has_ended() {
    let (app, go, _) = slow(fence());
    let older = begun(app.clone().oneshot(request("PUT", &["33"])));
    let mut newer = begun(app.clone().oneshot(request("PUT", &["34"])));
    go.notify_one();
    let older = older.await.unwrap();
    assert!((&mut newer).now_or_never().is_none(), "the older response is not sent yet");
    assert_eq!(text(older).await, "1");
    assert_eq!(text(newer.await.unwrap()).await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_drops_older_requests_answers_them_as_in_doubt() {
    let (app, _, running) = slow(fence().drop_older_after(Duration::ZERO));
    let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
    tokio::task::yield_now().await;
    assert_eq!(running.load(Ordering::SeqCst), 1);
    let newer = write(&app, 34).await;
    assert_eq!(text(newer).await, "1", "they never ran side by side");
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
    let written = Arc::new(tokio::sync::Notify::new());
    let handler = {
        let written = Arc::clone(&written);
        move |Fenced { .. }: Fenced| {
            let written = Arc::clone(&written);
            async move { written.notified().await }
        }
    };
    let fence = fence().drop_older_after(Duration::ZERO);
    let app = behind(fence.clone(), put(handler));
    let older = begun(app.oneshot(request("PUT", &["33"])));
    written.notify_one();
    let resource = file();
    let mut newer = Box::pin(fence.admit(&resource, token(34)));
    assert!((&mut newer).now_or_never().is_none(), "the older one is in flight");
    assert_eq!(older.await.unwrap().status(), 200);
    assert!(newer.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_older_request_that_never_ends_is_a_503_for_the_newer() {
    let (app, _, _) = slow(fence().limit(Duration::from_secs(1)));
    let _older = begun(app.clone().oneshot(request("PUT", &["33"])));
    assert!(refused(write(&app, 34).await, 503).await.detail.contains("a request with token 33"));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_response_is_in_flight_until_its_end() {
    for drops in [false, true] {
        let fence = if drops { fence().drop_older_after(Duration::ZERO) } else { fence() };
        let handler = |Fenced { token, .. }: Fenced| async move {
            let first = futures_util::stream::iter([Ok::<_, Infallible>(http_body::Frame::data(
                Bytes::from_static(b"begin "),
            ))]);
            let stream: futures_util::stream::BoxStream<'static, _> = if token.get() == 33 {
                Box::pin(futures_util::StreamExt::chain(first, futures_util::stream::pending()))
            } else {
                Box::pin(first)
            };
            Body::new(StreamBody::new(stream))
        };
        let app = behind(fence, put(handler));
        let older = write(&app, 33).await;
        let mut body = older.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        let newer = begun(app.clone().oneshot(request("PUT", &["34"])));
        if drops {
            assert!(body.frame().await.unwrap().is_err(), "cut off");
        }
        drop(body);
        assert_eq!(text(newer.await.unwrap()).await, "begin ");
    }
}
