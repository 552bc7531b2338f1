//! How long an older request may go on, what it is told then, and who may wait for it. The service below is asked
//! whether it is ready, as tower wants it: a limit panics that is called without.

use futures_util::stream::pending;
use tokio::time::Instant;
use tower::limit::ConcurrencyLimitLayer;

use super::*;

/// How long newer requests are sent off before one is let in, in seconds.
async fn closed_for(app: &Router) -> u64 {
    let begin = Instant::now();
    for number in 34.. {
        let response = write(app, number).await;
        if response.status() == 200 {
            break;
        }
        assert!(response.headers().contains_key(header::RETRY_AFTER));
        assert!(refused(response, 503).await.detail.contains("a request with token 33"));
        assert!(begin.elapsed() < Duration::from_secs(600), "closed for good");
    }
    begin.elapsed().as_secs()
}

/// A handler that never ends, as one does whose client has stopped in its upload; and a response that nobody reads.
#[tokio::test(start_paused = true)]
async fn a_request_that_never_ends_keeps_the_resource_closed_for_the_grace_only() {
    for (seconds, answers) in [(30, false), (0, false), (12, false), (3, false), (30, true)] {
        let handler = move |Fenced { token, .. }: Fenced| async move {
            match (token.get(), answers) {
                (33, false) => std::future::pending().await,
                (33, true) => Body::from_stream(pending::<Result<Bytes, Infallible>>()),
                _ => Body::from("written"),
            }
        };
        let app = behind(fence().drop_older_after(Duration::from_secs(seconds)), put(handler));
        let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
        tokio::task::yield_now().await;
        assert_eq!(closed_for(&app).await, seconds);
        let older = older.await.unwrap().unwrap();
        match answers {
            false => {
                // It was with its handler: whether that had written is not for the layer to say.
                assert!(older.headers().get(header::RETRY_AFTER).is_none(), "of no use");
                let found = refused(older, 503).await;
                assert_eq!((found.kind.as_str(), found.stale()), (Problem::SUPERSEDED, None));
                assert!(found.presented == Some(token(33)) && found.highest > found.presented);
            }
            true => assert!(older.into_body().frame().await.unwrap().is_err()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_waits_for_older_requests_stops_none() {
    let fence = fence();
    let older = fence.admit(&file(), token(33)).await.unwrap();
    let mut superseded = Box::pin(older.superseded());
    for number in 34..64 {
        let newer = fence.admit(&file(), token(number)).await;
        assert!(matches!(newer, Err(FenceError::Busy { .. })), "{newer:?}");
    }
    assert!((&mut superseded).now_or_never().is_none());
}

/// A newer request that never passed the marks asks only for as long as it is there.
#[tokio::test(start_paused = true)]
async fn a_request_that_gave_up_at_the_marks_stops_nobody_any_more() {
    let pool = Arc::new(Semaphore::new(1));
    let fence = Fence::new(pooled(&pool)).drop_older_after(Duration::ZERO);
    let older = fence.admit(&file(), token(33)).await.unwrap();
    let transaction = pool.acquire().await.unwrap();
    let limited = fence.clone().limit(Duration::from_secs(1));
    let newer = limited.admit(&file(), token(34)).await;
    assert!(matches!(newer, Err(FenceError::Unreachable(_))), "{newer:?}");
    drop(transaction);
    let again = fence.admit(&file(), token(33)).await.unwrap();
    assert!(again.superseded().now_or_never().is_none(), "nobody newer is there");
    drop((older, again));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_bounded_in_number() {
    let fence = fence().waiters(2);
    let older = fence.admit(&file(), token(33)).await.unwrap();
    let resource = file();
    let waiting: Vec<_> = (0..2).map(|_| begun(fence.admit(&resource, token(34)))).collect();
    let error = fence.admit(&resource, token(34)).now_or_never().unwrap().unwrap_err();
    assert!(matches!(error, FenceError::Crowded { limit: 2, .. }), "{error}");
    // A newer one sends them away, and waits in their place.
    let newest = begun(fence.admit(&resource, token(35)));
    for newer in waiting {
        assert!(matches!(newer.await, Err(FenceError::Stale(_))));
    }
    drop(older);
    let newest = newest.await.unwrap();
    assert!(fence.admit(&resource, token(35)).await.is_ok(), "nobody waits any more");
    drop(newest);
    let app = app(fence.clone().waiters(0));
    let _older = fence.admit(&file(), token(40)).await.unwrap();
    assert!(refused(write(&app, 41).await, 503).await.detail.contains("(limit 0)"));
}

/// Answers when it is told to; while it works it has the only place of a limit below the fence.
fn limited(fence: Fence) -> Boxed<String> {
    let handler = tower::service_fn(|request: Request<String>| async move {
        if request.body() == "slow" {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(http_body_util::Full::<Bytes>::default()))
    });
    boxed(layer(fence).layer(ConcurrencyLimitLayer::new(1).layer(handler)))
}

fn to(uri: &str, token: u64, body: &str) -> Request<String> {
    let request = Request::builder().method("PUT").uri(uri).header(HEADER, token);
    request.body(body.to_owned()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn stale_and_malformed_tokens_and_those_who_wait_need_no_place() {
    let service = limited(fence());
    let older = begun(service.clone().oneshot(to("/a", 33, "slow")));
    for (token, status) in [(1, 412), (0, 400)] {
        let refused = service.clone().oneshot(to("/a", token, "")).now_or_never();
        assert_eq!(refused.expect("it does not wait").unwrap().status(), status);
    }
    // A newer one is told after the limit that an older one is in flight.
    let newer = service.clone().oneshot(to("/a", 34, ""));
    let newer = tokio::time::timeout(Duration::from_secs(60), newer).await;
    assert_eq!(newer.expect("it gives up").unwrap().status(), 503);
    drop(older);
    assert_eq!(service.oneshot(to("/a", 34, "")).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_a_place_again_is_stopped_by_a_newer_one() {
    let fence = fence().drop_older_after(Duration::ZERO);
    let service = limited(fence.clone());
    let resource = Resource::new("a").unwrap();
    let oldest = fence.admit(&resource, token(32)).await.unwrap();
    let mut older = begun(service.clone().oneshot(to("/a", 33, "")));
    // Its place goes to a request that never ends.
    let _other = begun(service.clone().oneshot(to("/other", 1, "slow")));
    drop(oldest);
    assert!((&mut older).now_or_never().is_none(), "it is admitted, and has no place");
    let newer = begun(fence.admit(&resource, token(34)));
    let older = older.await.unwrap();
    assert_eq!(older.status(), 412, "its handler was not called");
    assert!(newer.await.is_ok());
}
