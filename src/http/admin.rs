use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::task::{Context, Poll};

use axum_core::body::Body;
use fencing_protocol::Resource;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde_json::json;
use tower_service::Service;

use super::service::token;
use super::{HEADER, Refusal};
use crate::fence::{Fence, FenceError};

/// Lists, shows and raises the marks of a fence over HTTP, for operators. It is a tower service: nest it
/// in your router, behind your own authentication.
///
/// ```
/// use std::sync::Arc;
///
/// use axum::Router;
/// use fencing::fence::MemoryMarks;
/// use fencing::http::MarksAdmin;
/// use fencing::{Fence, Token};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Keep the marks: `MemoryMarks::lower` lowers one that was raised by mistake.
/// let marks = Arc::new(MemoryMarks::default());
/// // A ceiling above every token that your lock service will issue refuses a typo.
/// let fence = Fence::new(Arc::clone(&marks)).ceiling(Token::new(1_000_000_000)?);
/// // Put your authentication around it.
/// let admin: Router = Router::new().nest_service("/admin", MarksAdmin::new(fence));
/// # Ok(())
/// # }
/// ```
///
/// [`MemoryMarks`](crate::fence::MemoryMarks) belong to one process. If several processes serve, a `PUT` raises
/// the mark only in the one that answers it, and the others still let older tokens pass. In that case give the
/// service a fence over the marks in the database:
///
/// ```
/// # #[cfg(feature = "postgres")]
/// # mod admin {
/// use axum::Router;
/// use fencing::http::MarksAdmin;
/// use fencing::sql::SqlMarks;
/// use fencing::{Fence, Token, TokenError};
/// use sqlx::PgPool;
///
/// fn admin(pool: PgPool) -> Result<Router, TokenError> {
///     let fence = Fence::new(SqlMarks::new(pool)).ceiling(Token::new(1_000_000_000)?);
///     Ok(Router::new().nest_service("/admin", MarksAdmin::new(fence)))
/// }
/// # }
/// ```
///
/// A [`TransactionLayer`](super::TransactionLayer) and `sql::begin` of every process obey those marks.
///
/// | request | answer |
/// |---|---|
/// | `GET /marks?after=NAME&limit=100` | the marks whose names come after `NAME`, up to `limit` of them (100 by default, 1000 at most), in the order of the bytes of their names |
/// | `GET /marks/NAME` | `{"resource":"files/a","token":34}`, or 404 if it has none |
/// | `PUT /marks/NAME` with the header `Fencing-Token: 40` | raises the mark, as a request with that token does, and answers with the mark. 412 if the mark is higher than the token |
///
/// Names are percent-encoded. If the marks cannot be read or [listed](crate::fence::Marks::list), the answer is a 503.
/// A list is `{"marks":[...]}`; to go on, ask with its last name as `after`, until a list has fewer than `limit`
/// marks.
///
/// **Fencing.** It never lowers a mark. After a `PUT` the fence refuses all smaller tokens for good. To stop a client
/// that sleeps before it wakes up, send the token of a newer lease. It obeys the [ceiling](Fence::ceiling) and the
/// [check](Fence::check_sequencer) of the fence, and waits for older requests in flight, or drops them, as the fence
/// does. If older requests do not end, the answer is a 503, but the mark was raised before that: it stays, and no
/// older token is admitted any more. To lower a mark that a forged token has poisoned, see
/// [`MemoryMarks::lower`](crate::fence::MemoryMarks::lower) and `fencing::sql::lower`.
#[derive(Clone)]
pub struct MarksAdmin {
    fence: Fence,
}

impl fmt::Debug for MarksAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MarksAdmin").finish_non_exhaustive()
    }
}

/// How many marks a list has by default, and at most.
const LIMIT: usize = 100;
const MOST: usize = 1000;

impl MarksAdmin {
    /// Makes the service for the marks of this fence.
    #[must_use]
    pub fn new(fence: Fence) -> MarksAdmin {
        MarksAdmin { fence }
    }

    async fn answer(&self, method: Method, uri: Uri, headers: HeaderMap) -> Response<Body> {
        let path = uri.path();
        let name = match path.strip_prefix("/marks") {
            Some("" | "/") => None,
            Some(rest) if rest.starts_with('/') => rest.strip_prefix('/'),
            _ => return status(StatusCode::NOT_FOUND),
        };
        let answered = match (method, name) {
            (Method::GET, None) => self.list(uri.query().unwrap_or("")).await,
            (Method::GET, Some(name)) => self.show(name).await,
            (Method::PUT, Some(name)) => self.raise(name, &headers).await,
            _ => return status(StatusCode::METHOD_NOT_ALLOWED),
        };
        answered.unwrap_or_else(|refusal| {
            refusal.answer_below(|text| text.map_or(Body::empty(), Body::from))
        })
    }

    async fn list(&self, query: &str) -> Result<Response<Body>, Refusal> {
        let (mut after, mut limit) = (None, LIMIT);
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "after" => after = Some(resource(&value.replace('+', " "))?),
                "limit" => {
                    let number = value.parse().ok().filter(|number| (1..=MOST).contains(number));
                    let wrong = || Refusal::Resource(format!("limit is a number from 1 to {MOST}"));
                    limit = number.ok_or_else(wrong)?;
                }
                _ => {}
            }
        }
        let marks = match self.fence.marks(after.as_ref(), limit).await {
            Ok(marks) => marks,
            Err(error) => return Ok(unreadable(&error)),
        };
        let marks =
            marks.iter().map(|(resource, token)| json!({"resource": resource, "token": token}));
        Ok(json_of(&json!({"marks": marks.collect::<Vec<_>>()})))
    }

    async fn show(&self, name: &str) -> Result<Response<Body>, Refusal> {
        let resource = resource(name)?;
        Ok(match self.fence.highest(&resource).await {
            Ok(Some(token)) => json_of(&json!({"resource": resource, "token": token})),
            Ok(None) => status(StatusCode::NOT_FOUND),
            Err(error) => unreadable(&error),
        })
    }

    async fn raise(&self, name: &str, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
        let resource = resource(name)?;
        let token = token(headers, &HEADER)?.ok_or(Refusal::Missing)?;
        let admitted = self.fence.admit(&resource, token).await;
        let refused = |error| Refusal::before_the_handler(resource.clone(), token, error);
        drop(admitted.map_err(refused)?);
        tracing::warn!(%resource, %token, "high-water mark raised by an operator");
        Ok(json_of(&json!({"resource": resource, "token": token})))
    }
}

fn resource(encoded: &str) -> Result<Resource, Refusal> {
    let name = percent_decode_str(encoded).decode_utf8();
    let unnamed = |error: Box<dyn Error>| Refusal::Resource(error.to_string());
    let name = name.map_err(|error| unnamed(error.into()))?;
    Resource::new(name.as_ref()).map_err(|error| unnamed(error.into()))
}

fn unreadable(error: &FenceError) -> Response<Body> {
    tracing::warn!(%error, "marks not read");
    status(StatusCode::SERVICE_UNAVAILABLE)
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn json_of(value: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl<B: Send + 'static> Service<Request<B>> for MarksAdmin {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let admin = self.clone();
        let (parts, _) = request.into_parts();
        async move { Ok(admin.answer(parts.method, parts.uri, parts.headers).await) }.boxed()
    }
}
