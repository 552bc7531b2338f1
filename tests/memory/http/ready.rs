//! The service below is asked whether it is ready, as tower wants it.

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
