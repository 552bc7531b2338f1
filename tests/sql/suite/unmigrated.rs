//! A service whose database nobody has migrated: its answers say that nothing was stored, and ask for no other try.

use axum::http::header;
use axum::routing::put;
use fencing::fence::MemoryMarks;
use fencing::http::{Fenced, InTransaction, Problem, Refusal};
use fencing::sql::ProtectError;
use tower::ServiceExt;

use super::*;
use crate::service::{answer, behind, request, server};

#[tokio::test]
async fn who_needs_the_tables_says_what_to_run() {
    let place = Place::empty().await;
    let protect = Protect::rows("documents", "path").unwrap().apply(&place.pool).await;
    let Err(ProtectError::Database(of_protect)) = protect else { panic!("{protect:?}") };
    for error in [
        admit(&place, &resource(), 33).await.unwrap_err(),
        sql::highest(&place.pool, &resource()).await.unwrap_err(),
        begin(&place.pool, 33).await.unwrap_err(),
        of_protect,
    ] {
        assert!(matches!(error, AdmitError::NotMigrated(_)), "{error:?}");
        assert!(error.to_string().contains("run fencing::sql::migrate"), "{error}");
    }
    let marks = SqlMarks::new(place.pool.clone());
    let error = marks.raise(&resource(), token(1)).await.unwrap_err();
    let FenceError::NotSetUp(source) = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("run fencing::sql::migrate"), "{source}");
    place.pool.close().await;
    let error = marks.raise(&resource(), token(1)).await.unwrap_err();
    assert!(matches!(error, FenceError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_service_without_its_tables_is_set_up_wrongly() {
    let place = Place::empty().await;
    let pool = place.pool.clone();
    let begins = put(move |fenced: Fenced| async move {
        drop(sql::begin(&pool, &fenced.resource, fenced.token).await?);
        Ok::<_, Refusal>("written")
    });
    let handler = put(|_: InTransaction<sqlx::Pool<Db>>| async { "written" });
    let fence = Fence::new(SqlMarks::new(place.pool.clone()));
    for app in [
        behind(Fence::new(MemoryMarks::default()), begins),
        server(place.pool.clone(), handler),
        behind(fence, put(|| async { "written" })),
    ] {
        let response = app.oneshot(request("/files/a", 34)).await.unwrap();
        assert_eq!(response.headers().get(header::RETRY_AFTER), None);
        let (status, problem) = answer(response).await;
        let problem = problem.unwrap();
        assert_eq!((status.as_u16(), problem.kind.as_str()), (500, Problem::UNAVAILABLE));
        assert!(problem.detail.ends_with("nothing was written"), "{problem:?}");
    }
}
