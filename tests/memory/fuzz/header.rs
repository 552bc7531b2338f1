use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request};
use axum::routing::put;
use fastrand::Rng;
use fencing::fence::MemoryMarks;
use fencing::http::{FenceLayer, Fenced, Problem};
use fencing::{Fence, Resource, Token};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::fuzz::bytes::{one, spoiled};
use crate::fuzz::rounds;

/// Only what is one whole token comes to the handler, and everything else is answered.
#[tokio::test]
async fn headers() {
    static REACHED: AtomicU64 = AtomicU64::new(0);
    let handler = |Fenced { token, .. }: Fenced| async move {
        REACHED.store(token.get(), Ordering::SeqCst);
    };
    let fence = Fence::new(MemoryMarks::default());
    let layer = FenceLayer::new(fence, |_: &http::request::Parts| Resource::new("files/a"));
    let app = Router::new().route("/", put(handler)).layer(layer);
    let mut rng = Rng::with_seed(4);
    let (mut passed, mut statuses) = (0, std::collections::BTreeMap::<u16, u64>::new());
    for _ in 0..rounds(20_000) {
        let mut request = Request::put("/").body(Body::empty()).unwrap();
        let mut sent = Vec::new();
        for _ in 0..[1, 1, 1, 1, 0, 2][rng.usize(0..6)] {
            let value = spoiled(one(&["1", "34", "33", "999"], &mut rng).as_bytes(), &mut rng);
            if let Ok(header) = HeaderValue::from_bytes(&value) {
                request.headers_mut().append("fencing-token", header);
                sent.push(value);
            }
        }
        REACHED.store(0, Ordering::SeqCst);
        let response = app.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        *statuses.entry(parts.status.as_u16()).or_default() += 1;
        let reached = REACHED.load(Ordering::SeqCst);
        if parts.status == 200 {
            passed += 1;
            let [only] = sent.as_slice() else { panic!("{sent:?}") };
            assert_eq!(String::from_utf8_lossy(only), reached.to_string());
            assert!(Token::new(reached).is_ok());
            continue;
        }
        assert_eq!(reached, 0, "{sent:?}");
        let body = body.collect().await.unwrap().to_bytes();
        let problem = Problem::read(&parts.headers, &body).unwrap();
        assert_eq!(problem.status, parts.status.as_u16());
    }
    assert!(passed > 10, "{statuses:?}");
    let known = [200, 400, 412, 428];
    assert!(statuses.keys().all(|status| known.contains(status)), "{statuses:?}");
    assert_eq!(statuses.len(), known.len(), "{statuses:?}");
}
