use axum::http::{HeaderMap, HeaderValue};
use fastrand::Rng;
use fencing::http::Problem;
use fencing::{Resource, Token};

use crate::fuzz::bytes::{one, spoiled, text};
use crate::fuzz::rounds;

const TOKENS: [&str; 8] =
    ["1", "34", "999999999999999", "1000000000000000", "0", "-1", "18446744073709551616", ""];

/// What is read as a token is exactly one way to write it.
#[test]
fn tokens() {
    let mut rng = Rng::with_seed(1);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..rounds(100_000) {
        let text = text(one(&TOKENS, &mut rng), &mut rng);
        match text.parse::<Token>() {
            Ok(token) => {
                read += 1;
                assert_eq!(token.to_string(), text);
                assert!((1..=999_999_999_999_999).contains(&token.get()), "{text}");
                assert_eq!(serde_json::from_str::<Token>(&text).unwrap(), token);
            }
            Err(_) => {
                refused += 1;
                let plain = !text.is_empty()
                    && text.bytes().all(|byte| byte.is_ascii_digit())
                    && !text.starts_with('0')
                    && text.len() <= 15;
                assert!(!plain, "{text:?}");
            }
        }
        if let Ok(token) = serde_json::from_str::<Token>(&text) {
            assert!((1..=999_999_999_999_999).contains(&token.get()), "{text}");
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} {refused}");
}

#[test]
fn resources() {
    let long = "n".repeat(255);
    let good = ["invoice/42", "r", "\u{e9}/\u{1f980}", " r", "", long.as_str()];
    let mut rng = Rng::with_seed(2);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..rounds(100_000) {
        let text = text(one(&good, &mut rng), &mut rng);
        let rule = (1..=255).contains(&text.len())
            && text.trim() == text
            && !text.chars().any(char::is_control);
        match Resource::new(&text) {
            Ok(resource) => {
                read += 1;
                assert!(rule, "{text:?}");
                assert_eq!(resource.as_str(), text);
                let json = serde_json::to_string(&resource).unwrap();
                assert_eq!(serde_json::from_str::<Resource>(&json).unwrap(), resource);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains(['\r', '\n', '\0']), "{error}");
            }
        }
        let _ = serde_json::from_str::<Resource>(&text);
    }
    assert!(read > 1000 && refused > 1000, "{read} {refused}");
}

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
