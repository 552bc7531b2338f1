//! What a client is told when the handler is the one that refuses.

use super::*;

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
}

/// What a handler makes of a refusal on purpose is its own.
#[tokio::test]
async fn an_answer_that_the_handler_changed_stays() {
    let refuse = || async { (StatusCode::CONFLICT, refuses()) };
    let app = Router::new().route("/files/{name}", put(refuse)).layer(layer(fence()));
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
    let app = |fence| Router::new().route("/files/{name}", put(transact.clone())).layer(layer(fence));
    let app = || app(fence());
    assert_eq!(ask(&app(), request("PUT", &["34"])).await.status(), 200);
    // Another process: its fence has seen nothing.
    let found = refused(write(&app(), 33).await, 412).await;
    assert_eq!(found.stale().expect("it is stale").highest, token(34));

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
