use axum::http::{HeaderMap, HeaderValue};
use fastrand::Rng;
use fencing::http::Problem;

use crate::fuzz::bytes::{one, spoiled};
use crate::fuzz::rounds;

/// The client's side: a refusal is one only if it is complete.
#[test]
fn problems() {
    let good = r#"{"type":"urn:fencing:stale","title":"Stale fencing token","status":412,"detail":"token 33 of files/a is stale, high water 34","resource":"files/a","presented":33,"highest":34}"#;
    let kinds =
        ["application/problem+json", "application/problem+json; charset=utf-8", "text/html"];
    let mut rng = Rng::with_seed(3);
    let (mut read, mut stale) = (0, 0);
    for _ in 0..rounds(100_000) {
        let mut headers = HeaderMap::new();
        let kind = if rng.u8(0..4) == 0 {
            spoiled(kinds[0].as_bytes(), &mut rng)
        } else {
            one(&kinds, &mut rng).as_bytes().to_vec()
        };
        if let Ok(kind) = HeaderValue::from_bytes(&kind) {
            headers.insert("content-type", kind);
        }
        let body = spoiled(good.as_bytes(), &mut rng);
        let Ok(problem) = Problem::read(&headers, &body) else { continue };
        read += 1;
        if let Some(found) = problem.stale() {
            stale += 1;
            assert!(problem.is_stale());
            assert_eq!(Some(found.highest), problem.highest);
        }
    }
    assert!(read > 1000 && stale > 1000, "{read} {stale}");
}
