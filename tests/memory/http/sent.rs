//! `AttachLayer` above a client of the crate `reqwest`, as docs/http.md shows it.

use fencing::http::{AttachError, AttachLayer};
use fencing::lock::{self, Lock};
use tower::ServiceBuilder;

use super::*;

/// A client of the crate `reqwest` that sends every request under this lease.
fn client(
    lease: Arc<fencing::Lease>,
) -> impl Service<
    Request<String>,
    Response = Response<fencing::http::FenceBody<reqwest::Body>>,
    Error = AttachError<reqwest::Error>,
> + Clone {
    let client = reqwest::Client::new();
    let send = tower::service_fn(move |request: Request<String>| {
        let client = client.clone();
        async move { Ok(Response::from(client.execute(request.try_into()?).await?)) }
    });
    ServiceBuilder::new().layer(AttachLayer::new(lease)).service(send)
}

#[tokio::test]
async fn reqwest_sends_the_token_and_tells_a_refusal_by_its_type() {
    let address = serve(app(fence())).await;
    let to = |path: &str| {
        let uri = format!("http://{address}{path}");
        Request::builder().method("PUT").uri(uri).body("one".to_owned()).unwrap()
    };
    let lock = lock::connect("memory:").await.unwrap();
    let lease = Arc::new(lock.acquire(&file()).await.unwrap());
    let older = client(Arc::clone(&lease));
    let answer = older.clone().oneshot(to("/files/a")).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, format!("files/a {}", lease.token()));

    // A newer token has been seen; the older client does not know it.
    let newer = Token::new(lease.token().get() + 1).unwrap();
    let mut request = to("/files/a");
    attach(request.headers_mut(), newer);
    let sent = reqwest::Client::new().execute(request.try_into().unwrap()).await.unwrap();
    assert_eq!(sent.status(), 200);
    let error = older.clone().oneshot(to("/files/a")).await.unwrap_err();
    assert_eq!(error.stale().unwrap().highest, newer, "{error}");

    let nowhere = Request::builder().uri("http://127.0.0.1:1/").body(String::new()).unwrap();
    let error = older.oneshot(nowhere).await.unwrap_err();
    assert!(matches!(&error, AttachError::Service(error) if error.is_connect()), "{error:?}");
}
