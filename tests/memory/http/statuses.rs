//! Which refusal has which status, over HTTP and gRPC, and what it tells the client; also where the handler refuses.

use super::*;

#[tokio::test]
async fn refusals_are_problems_that_a_client_can_read() {
    // Also if the path names no resource.
    let unnamed = Router::new().fallback(async || "reached").layer(layer(fence()));
    let found = refused(send(&unnamed, "PUT", "/", Some("1")).await, 400).await;
    assert!(found.detail.contains("this one is empty"), "{}", found.detail);

    let app = app(fence());
    write(&app, 34).await;
    let response = write(&app, 33).await;
    assert_eq!(response.status(), 412);
    assert!(matches!(response.extensions().get(), Some(Refusal::Stale(_))));
    let found = problem(response).await;
    let stale = Stale::check(&file(), token(33), Some(token(34)));
    assert_eq!(found.stale(), stale.err());
    assert_eq!(found.detail, "token 33 of files/a is stale, high water 34");

    assert_eq!(refused(ask(&app, request("PUT", &[])).await, 428).await.kind, Problem::MISSING);

    let bad = ["", "0", "-1", "+1", "01", "1 2", "34, 35", "34;a=b", "1.0", "1000000000000000", "\u{e9}"];
    let twice = [["33", "34"], ["34", "34"]];
    for tokens in bad.iter().map(std::slice::from_ref).chain(twice.iter().map(|both| &both[..])) {
        for method in ["PUT", "GET"] {
            let response = ask(&app, request(method, tokens)).await;
            assert_eq!(response.status(), 400, "{tokens:?}");
            assert_eq!(problem(response).await.kind, Problem::MALFORMED);
        }
    }
}

/// So a client that asks first (`Expect: 100-continue`) sends nothing of a large upload.
#[tokio::test]
async fn a_refusal_comes_before_the_upload_is_read() {
    let app = app(fence());
    write(&app, 34).await;
    let upload = futures_util::stream::poll_fn(|_| -> Poll<Option<Result<Bytes, Infallible>>> {
        panic!("somebody reads the upload")
    });
    let refuse = request("PUT", &["33"]).map(|_| Body::from_stream(upload));
    assert_eq!(ask(&app, refuse).await.status(), 412);
}

/// Marks that cannot be reached let nobody pass, and it may help to try again; with full ones it does not. Those that
/// refuse for good are a fault of the server.
#[tokio::test]
async fn marks_that_fail_let_nobody_pass_and_say_little() {
    let full = "no room for a high-water mark of files/a; nothing was written";
    for (fence, again) in [(Fence::new(NoMarks::Unreachable), true), (Fence::new(MemoryMarks::new(0)), false)] {
        let response = write(&app(fence), 34).await;
        assert_eq!(response.headers().contains_key(header::RETRY_AFTER), again);
        let found = refused(response, 503).await;
        assert_eq!(found.retry_after, again.then_some(Duration::from_secs(1)), "what a client learns");
        assert_eq!(found.kind, Problem::UNAVAILABLE);
        assert!(!found.detail.contains("secret-host"), "{}", found.detail);
        assert_eq!(found.detail == full, !again, "{}", found.detail);
    }
    let response = write(&app(Fence::new(NoMarks::Refusing)), 34).await;
    assert!(!response.headers().contains_key(header::RETRY_AFTER));
    assert!(!refused(response, 500).await.detail.contains("secret-host"));
}

#[test]
fn a_problem_that_is_none_is_an_error() {
    let mut headers = http::HeaderMap::new();
    assert!(Problem::read(&headers, b"{}").is_err());
    // Media types are compared without case (RFC 9110, 8.3.1).
    let kind = "Application/Problem+JSON; charset=utf-8".parse().unwrap();
    headers.insert(header::CONTENT_TYPE, kind);
    for bad in ["", "{}", "[]", r#"{"type":"x","title":"y","status":412,"highest":0}"#, "\u{0}"] {
        assert!(Problem::read(&headers, bad.as_bytes()).is_err(), "{bad}");
    }
    let foreign = r#"{"type":"about:blank","title":"y","status":404,"balance":30}"#;
    assert!(!Problem::read(&headers, foreign.as_bytes()).unwrap().is_stale());
    // It says that the token is stale, and not for which.
    let part = r#"{"type":"urn:fencing:stale","title":"y","status":412,"resource":"a","presented":33}"#;
    assert_eq!(Problem::read(&headers, part.as_bytes()).unwrap().stale(), None);
}

/// With trailers only, and in no other case.
#[tokio::test]
async fn grpc_is_answered_as_grpc() {
    let app = app(Fence::new(MemoryMarks::new(1)).ceiling(token(1000)));
    write(&app, 34).await;
    for (kind, method, uri, tokens, status) in [
        ("grpc+proto", "POST", "/files/a", &["33"] as &[&str], "10"),
        ("grpc+proto", "POST", "/files/a", &[], "9"),
        ("grpc+proto", "POST", "/files/a", &["x"], "3"),
        ("grpc+proto", "POST", "/files/a", &["1001"], "3"),
        ("grpc+proto", "POST", "/files/b", &["35"], "14"),
        ("grpc", "PUT", "/files/a", &["33"], ""),
        ("grpc-web", "POST", "/files/a", &["33"], ""),
        ("grpcx", "POST", "/files/a", &["33"], ""),
        ("json", "POST", "/files/a", &["33"], ""),
    ] {
        let mut request = request(method, tokens);
        *request.uri_mut() = uri.parse().unwrap();
        let kind = format!("application/{kind}");
        request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
        let response = ask(&app, request).await;
        if status.is_empty() {
            assert_eq!(response.status(), 412, "{method} {kind}");
            continue;
        }
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], status, "{tokens:?}");
        assert_eq!(response.headers()["content-type"], "application/grpc");
        assert!(response.headers().contains_key("grpc-message"));
        assert_eq!(text(response).await, "");
    }
}

fn refuses() -> Refusal {
    Refusal::Stale(Stale::check(&file(), token(33), Some(token(34))).unwrap_err())
}

/// A server that is put together wrongly is not the client's fault.
#[tokio::test]
async fn a_handler_without_a_layer_is_an_error_of_the_server() {
    let reached = |Fenced { .. }: Fenced| async { "written" };
    let route = || Router::new().route("/files/{name}", put(reached).get(reached));
    let response = route().oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(text(response).await, "", "the log says why");
    // Behind a layer it is the client's: this method needs a token here, and it sent none.
    let app = route().layer(layer(fence()));
    let found = refused(ask(&app, request("GET", &[])).await, 428).await;
    assert_eq!(found.kind, Problem::MISSING);
}

#[tokio::test]
async fn a_refusal_of_the_handler_is_answered_as_one_of_the_layer() {
    let refuse = || async { ([("x-request-id", "7")], refuses()) };
    let missing = |fenced: Option<Fenced>| async move { fenced.ok_or(Refusal::Missing).map(|_| ()) };
    let name = HeaderName::from_static("x-generation");
    let layer = layer(fence()).header(name).hide_highest();
    let app = Router::new().route("/files/{name}", put(refuse).post(refuse).get(missing));
    let app = app.layer(layer);
    let send = |request: Request<Body>| {
        let mut request = request;
        request.headers_mut().insert("x-generation", "33".parse().unwrap());
        app.clone().oneshot(request)
    };

    let response = send(request("PUT", &[])).await.unwrap();
    assert_eq!(response.status(), 412);
    assert_eq!(response.headers()["x-request-id"], "7");
    assert_eq!(response.headers().get_all(header::CONTENT_TYPE).iter().count(), 1);
    assert!(matches!(response.extensions().get(), Some(Refusal::Stale(_))));
    let length = response.headers().get(header::CONTENT_LENGTH).cloned();
    let body = text(response).await;
    assert!(length.is_none_or(|length| length == body.len().to_string().as_str()));
    assert!(body.contains("urn:fencing:stale"), "{body}");
    assert!(!body.contains("34") && !body.contains("highest"), "{body}");

    let response = send(grpc(request("POST", &[]))).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["grpc-status"], "10");
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/grpc");
    assert_eq!(text(response).await, "");

    let found = refused(ask(&app, request("GET", &[])).await, 428).await;
    assert!(found.detail.contains("x-generation"));

    // A handler may choose the status of a refusal.
    let refuse = || async { (StatusCode::CONFLICT, refuses()) };
    let app = Router::new().route("/files/{name}", put(refuse)).layer(super::layer(fence()));
    assert_eq!(refused(write(&app, 33).await, 409).await.highest, Some(token(34)));
}

/// The check stands inside the handler's transaction, and `?` answers what it says.
#[tokio::test]
async fn a_handler_answers_the_errors_of_its_own_transaction() {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    fencing::sql::migrate(&pool).await.unwrap();
    let (marks, body) = (pool.clone(), "SELECT secret FROM nowhere");
    let transact = move |Fenced { resource, token, .. }: Fenced| {
        let pool = pool.clone();
        async move {
            let mut tx = fencing::sql::begin(&pool, &resource, token).await?;
            if token.get() > 34 {
                sqlx::query(body).execute(&mut *tx).await?;
            }
            tx.commit().await?;
            Ok::<_, Refusal>("written")
        }
    };
    let app = || Router::new().route("/files/{name}", put(transact.clone())).layer(layer(fence()));
    assert_eq!(ask(&app(), request("PUT", &["34"])).await.status(), 200);
    // Another process: its fence has seen nothing.
    let found = refused(write(&app(), 33).await, 412).await;
    assert_eq!(found.stale().expect("it is stale").highest, token(34));

    // What the database refuses for good may have come after a commit.
    let denied = || async { Err::<&str, Refusal>(FenceError::Refused("no right".into()).into()) };
    let denied = Router::new().route("/files/{name}", put(denied)).layer(layer(fence()));
    let found = refused(write(&denied, 34).await, 503).await;
    assert!(found.detail.contains("may or may not be stored"), "{}", found.detail);

    let response = ask(&app(), request("PUT", &["35"])).await;
    assert_eq!(response.status(), 503);
    assert!(!response.headers().contains_key(header::RETRY_AFTER), "the write may be stored");
    let Some(Refusal::Failed(cause)) = response.extensions().get() else { panic!("no cause") };
    let cause: &(dyn std::error::Error + 'static) = &**cause;
    assert!(cause.downcast_ref::<fencing::sql::AdmitError>().is_some(), "{cause:?}");
    let found = problem(response).await;
    assert_eq!(found.kind, Problem::UNAVAILABLE);
    assert!(!found.detail.contains("nowhere"), "{}", found.detail);
    let highest = fencing::sql::highest(&marks, &file()).await.unwrap();
    assert_eq!(highest, Some(token(34)), "35 was rolled back");
}
