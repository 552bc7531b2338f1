use std::error::Error;
use std::net::SocketAddr;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use fencing::Token;
use fencing::http::attach;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

/// A client of the service, over real HTTP.
pub struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

/// What the service answered.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Caller {
    pub fn new(address: SocketAddr) -> Caller {
        Caller { client: Client::builder(TokioExecutor::new()).build_http(), address }
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        token: Option<Token>,
        body: String,
    ) -> Result<Answer, Box<dyn Error>> {
        let uri = format!("http://{}{path}", self.address);
        let mut request = Request::builder().method(method).uri(uri).body(body.into())?;
        if let Some(token) = token {
            attach(request.headers_mut(), token);
        } else {
            let kind = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, kind);
        }
        let response = self.client.request(request).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}
