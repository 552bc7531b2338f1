//! A request is in flight from its admission to the end of its response.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_newer_request_reaches_the_handler_when_the_older_has_ended() {
    let (app, go, _) = slow(fence());
    let mut older = Box::pin(app.clone().oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
    let mut newer = Box::pin(app.clone().oneshot(request("PUT", &["34"])));
    assert!((&mut newer).now_or_never().is_none());
    go.notify_one();
    let older = older.await.unwrap();
    assert!((&mut newer).now_or_never().is_none(), "the older response is not sent yet");
    assert_eq!(text(older).await, "1");
    assert_eq!(text(newer.await.unwrap()).await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_lets_the_newer_one_in() {
    let (app, _, running) = slow(fence());
    let mut older = Box::pin(app.clone().oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
    drop(older);
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert_eq!(app.oneshot(request("PUT", &["34"])).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_drops_older_requests_answers_them_as_in_doubt() {
    let (app, _, running) = slow(fence().drop_older_after(Duration::ZERO));
    let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
    tokio::task::yield_now().await;
    assert_eq!(running.load(Ordering::SeqCst), 1);
    let newer = app.oneshot(request("PUT", &["34"])).await.unwrap();
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
    let mut older = Box::pin(app.oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
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
    let mut older = Box::pin(app.clone().oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
    let response = app.oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(problem(response).await.detail.contains("a request with token 33"));
}

/// A response body that streams is part of its request.
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
        let older = app.clone().oneshot(request("PUT", &["33"])).await.unwrap();
        let mut body = older.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        let mut newer = Box::pin(app.clone().oneshot(request("PUT", &["34"])));
        assert!((&mut newer).now_or_never().is_none());
        if drops {
            assert!(body.frame().await.unwrap().is_err(), "cut off");
        }
        drop(body);
        assert_eq!(text(newer.await.unwrap()).await, "begin ");
    }
}

/// Asks, while the request is being dropped, whether a newer one would be let in.
struct Probe(Fence, Arc<AtomicUsize>);

impl Drop for Probe {
    fn drop(&mut self) {
        let resource = Resource::new("a").unwrap();
        let admitted = self.0.admit(&resource, token(34)).now_or_never().is_some();
        self.1.store(if admitted { 2 } else { 1 }, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_has_ended_before_a_newer_one_is_let_in() {
    let (fence, seen) = (fence(), Arc::new(AtomicUsize::new(0)));
    let (probed, count) = (fence.clone(), Arc::clone(&seen));
    let inner = tower::service_fn(move |_: Request<()>| {
        let probe = Probe(probed.clone(), Arc::clone(&count));
        async move {
            let _probe = probe;
            std::future::pending::<()>().await;
            Ok::<_, Infallible>(Response::new(http_body_util::Full::<Bytes>::default()))
        }
    });
    let request = Request::builder().method("PUT").uri("/a").header(HEADER, 33);
    let mut older = Box::pin(layer(fence).layer(inner).oneshot(request.body(()).unwrap()));
    assert!((&mut older).now_or_never().is_none());
    drop(older);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}
