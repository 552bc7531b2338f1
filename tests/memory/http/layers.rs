//! Layers of tower-http above and below the fence: they fit, and each still does its work.

use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use tower::ServiceBuilder;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;

use super::*;

type App = Boxed<Full<Bytes>>;

/// Takes its time if its body says so.
async fn handler<B>(request: Request<B>) -> Result<Response<Full<Bytes>>, BoxError>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    let body = request.into_body().collect().await.map_err(Into::into)?.to_bytes();
    if body == "slow" {
        std::future::pending::<()>().await;
    }
    Ok(Response::new(Full::from("written ".repeat(100))))
}

/// The layers but for the fence: each of their types depends on what stands below.
macro_rules! layers {
    () => {
        ServiceBuilder::new()
            .layer(RequestBodyLimitLayer::new(16))
            .layer(TraceLayer::new_for_http())
            .layer(CompressionLayer::new())
            .layer(ValidateRequestHeaderLayer::accept("text/plain"))
            .layer(CorsLayer::permissive())
            .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LIMIT))
    };
}

const LIMIT: Duration = Duration::from_secs(1);

fn write(token: &str) -> http::request::Builder {
    let write = Request::builder().method("PUT").uri("/files/a").header("accept", "text/plain");
    if token.is_empty() { write } else { write.header(HEADER, token) }
}

async fn send(app: &App, request: http::request::Builder, body: &'static str) -> Response<Body> {
    app.clone().oneshot(request.body(Full::from(body)).unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn layers_above_and_below_the_fence_do_their_work_and_it_does_its_own() {
    let above: App = boxed(layers!().layer(layer(fence())).service(tower::service_fn(handler)));
    let below: App = boxed(layer(fence()).layer(layers!().service(tower::service_fn(handler))));
    for (place, app) in [("above", above), ("below", below)] {
        let response = send(&app, write("33"), "").await;
        assert_eq!(response.status(), 200, "{place}");
        assert_eq!(text(response).await, "written ".repeat(100), "{place}");
        let gzip = write("34").header("accept-encoding", "gzip");
        let response = send(&app, gzip, "").await;
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip", "{place}");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes.starts_with(&[0x1f, 0x8b]) && bytes.len() < 200, "{place}");

        let response = send(&app, write("33"), "").await;
        assert_eq!(response.status(), 412, "{place}");
        assert!(problem(response).await.is_stale(), "{place}");
        assert_eq!(send(&app, write(""), "").await.status(), 428, "{place}");
        assert_eq!(send(&app, write("x"), "").await.status(), 400, "{place}");

        let slow = send(&app, write("34"), "slow").await;
        assert_eq!(slow.status(), 408, "{place}");
        assert_eq!(text(slow).await, "", "{place}");
        let large = write("34").header("content-length", 17);
        assert_eq!(send(&app, large, "larger than it may be").await.status(), 413, "{place}");
        let other = Request::builder().method("PUT").uri("/files/a").header(HEADER, 34);
        let other = other.header("accept", "image/png");
        assert_eq!(send(&app, other, "").await.status(), 406, "{place}");
        let preflight = Request::builder().method("OPTIONS").uri("/files/a");
        let preflight = preflight.header("accept", "text/plain").header("origin", "http://b");
        let preflight = preflight.header("access-control-request-method", "PUT");
        let response = send(&app, preflight, "").await;
        assert_eq!(response.status(), 200, "{place}");
        assert!(response.headers().contains_key("access-control-allow-methods"), "{place}");
        assert_eq!(send(&app, write("35"), "").await.status(), 200, "{place}: nothing waits");
    }
}

/// Boxed bodies, above and below: one that can be sent between threads, and shared.
#[tokio::test]
async fn bodies_may_be_boxed_on_both_sides() {
    let handler = tower::service_fn(|_: Request<Full<Bytes>>| {
        let body: BoxBody<Bytes, BoxError> = Full::from("data").map_err(Into::into).boxed();
        ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let above = layer(fence()).layer(handler);
    let above = above.map_response(|response: Response<_>| response.map(BodyExt::boxed));
    let response = above.oneshot(write("33").body(Full::default()).unwrap()).await.unwrap();
    let body: BoxBody<Bytes, fencing::http::FenceBodyError> = response.into_body();
    assert_eq!(body.collect().await.unwrap().to_bytes(), "data");
}
