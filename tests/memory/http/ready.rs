//! The service below is asked whether it is ready, as tower wants it: a limit panics that is called without.

use tower::limit::ConcurrencyLimitLayer;

use super::*;

/// Answers when it is told to; while it works it has one of the places of a limit below the fence.
fn limited(fence: Fence, places: usize) -> Boxed<String> {
    let handler = tower::service_fn(|request: Request<String>| async move {
        if request.body() == "slow" {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(http_body_util::Full::<Bytes>::default()))
    });
    boxed(layer(fence).layer(ConcurrencyLimitLayer::new(places).layer(handler)))
}

fn to(uri: &str, token: u64, body: &str) -> Request<String> {
    let request = Request::builder().method("PUT").uri(uri).header(HEADER, token);
    request.body(body.to_owned()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_leave_their_places_to_others() {
    let service = limited(fence(), 3);
    let older = begun(service.clone().oneshot(to("/a", 33, "slow")));
    let mut waiting: Vec<_> = (0..20).map(|_| Box::pin(service.clone().oneshot(to("/a", 34, "")))).collect();
    for newer in &mut waiting {
        assert!(newer.now_or_never().is_none());
    }
    let other = service.clone().oneshot(to("/other", 1, "")).now_or_never();
    assert_eq!(other.expect("it has a place").unwrap().status(), 200);
    let read = Request::get("/other").body(String::new()).unwrap();
    let read = service.clone().oneshot(read).now_or_never();
    assert_eq!(read.expect("it has a place without a token").unwrap().status(), 200);
    drop(older);
    for newer in waiting {
        assert_eq!(newer.await.unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_request_ends_those_that_have_all_places() {
    let service = limited(fence().drop_older_after(Duration::ZERO), 1);
    let older = tokio::spawn(service.clone().oneshot(to("/a", 33, "slow")));
    tokio::task::yield_now().await;
    let newer = service.clone().oneshot(to("/a", 34, ""));
    let newer = tokio::time::timeout(Duration::from_secs(60), newer).await;
    assert_eq!(newer.expect("it comes as far as the fence").unwrap().status(), 200);
    assert_eq!(older.await.unwrap().unwrap().status(), 503);
}

#[tokio::test(start_paused = true)]
async fn stale_and_malformed_tokens_need_no_place() {
    let service = limited(fence(), 1);
    let _older = begun(service.clone().oneshot(to("/a", 33, "slow")));
    for (token, status) in [(1, 412), (0, 400)] {
        let refused = service.clone().oneshot(to("/a", token, "")).now_or_never();
        assert_eq!(refused.expect("it does not wait").unwrap().status(), status);
    }
    // A newer one is told after the limit that an older one is in flight.
    let newer = service.clone().oneshot(to("/a", 34, ""));
    let newer = tokio::time::timeout(Duration::from_secs(60), newer).await;
    assert_eq!(newer.expect("it gives up").unwrap().status(), 503);
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_a_place_again_is_stopped_by_a_newer_one() {
    let fence = fence().drop_older_after(Duration::ZERO);
    let service = limited(fence.clone(), 1);
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
