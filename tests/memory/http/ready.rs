//! The service below is asked whether it is ready, as tower wants it.

use tower::limit::ConcurrencyLimitLayer;

use super::*;

/// A service that must be polled ready before each call, as tower asks.
struct Strict {
    ready: bool,
    busy: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Strict {
        Strict { ready: false, busy: Arc::clone(&self.busy) }
    }
}

impl Service<Request<String>> for Strict {
    type Response = Response<http_body_util::Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.busy.load(Ordering::SeqCst) > 0 {
            self.busy.fetch_sub(1, Ordering::SeqCst);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        ready(Ok(Response::new(request.into_body().into())))
    }
}

#[tokio::test]
async fn the_readied_service_is_the_one_called_and_back_pressure_holds() {
    let busy = Arc::new(AtomicUsize::new(2));
    let strict = Strict { ready: false, busy: Arc::clone(&busy) };
    let mut service = layer(fence()).layer(strict);
    for number in 1..5 {
        let unready = futures_util::future::poll_fn(|context| {
            Poll::Ready(service.poll_ready(context).is_pending())
        });
        assert_eq!(unready.await, number == 1);
        let request = Request::builder().method("PUT").uri("/a").header(HEADER, number);
        let service = service.ready().await.unwrap();
        let response = service.call(request.body("hello".to_owned()).unwrap()).await.unwrap();
        assert_eq!(text(response).await, "hello");
    }
}

/// Answers when it is told to; while it works it has one of the places of a limit below the fence.
fn limited(
    fence: Fence,
    places: usize,
) -> impl Service<
    Request<String>,
    Response = Response<fencing::http::FenceBody<http_body_util::Full<Bytes>>>,
    Error = Infallible,
    Future: Send,
> + Clone {
    let handler = tower::service_fn(|request: Request<String>| async move {
        if request.body() == "slow" {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(http_body_util::Full::<Bytes>::default()))
    });
    layer(fence).layer(ConcurrencyLimitLayer::new(places).layer(handler))
}

fn to(uri: &str, token: u64, body: &str) -> Request<String> {
    let request = Request::builder().method("PUT").uri(uri).header(HEADER, token);
    request.body(body.to_owned()).unwrap()
}

/// Whoever waits for an older request has no place in a limit below the fence.
#[tokio::test(start_paused = true)]
async fn those_who_wait_leave_their_places_to_others() {
    let service = limited(fence(), 3);
    let mut older = Box::pin(service.clone().oneshot(to("/a", 33, "slow")));
    assert!((&mut older).now_or_never().is_none());
    let mut waiting: Vec<_> =
        (0..20).map(|_| Box::pin(service.clone().oneshot(to("/a", 34, "")))).collect();
    for newer in &mut waiting {
        assert!(newer.now_or_never().is_none());
    }
    let other = service.clone().oneshot(to("/other", 1, "")).now_or_never();
    assert_eq!(other.expect("it has a place").unwrap().status(), 200);
    drop(older);
    for newer in waiting {
        assert_eq!(newer.await.unwrap().status(), 200);
    }
}

/// One that was admitted and waits for a place is in flight, and is stopped as any other.
#[tokio::test(start_paused = true)]
async fn one_that_waits_for_a_place_again_is_stopped_by_a_newer_one() {
    let fence = fence().drop_older();
    let service = limited(fence.clone(), 1);
    let resource = Resource::new("a").unwrap();
    let oldest = fence.admit(&resource, token(32)).await.unwrap();
    let mut older = Box::pin(service.clone().oneshot(to("/a", 33, "")));
    assert!((&mut older).now_or_never().is_none());
    // Its place goes to a request that never ends.
    let mut other = Box::pin(service.clone().oneshot(to("/other", 1, "slow")));
    assert!((&mut other).now_or_never().is_none());
    drop(oldest);
    assert!((&mut older).now_or_never().is_none(), "it is admitted, and has no place");
    let mut newer = Box::pin(fence.admit(&resource, token(34)));
    assert!((&mut newer).now_or_never().is_none());
    let older = older.await.unwrap();
    assert_eq!(older.status(), 412, "its handler was not called");
    assert!(newer.await.is_ok());
}
