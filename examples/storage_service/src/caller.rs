use std::net::SocketAddr;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use fencing::Token;
use fencing::http::attach;

/// A client of the service, over real HTTP.
pub struct Caller {
    client: reqwest::Client,
    address: SocketAddr,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Caller {
    pub fn new(address: SocketAddr) -> reqwest::Result<Caller> {
        // The service is on this machine, whatever proxy the environment names.
        Ok(Caller { client: reqwest::Client::builder().no_proxy().build()?, address })
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        token: Option<Token>,
        body: String,
    ) -> reqwest::Result<Answer> {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        let mut request = request.header(CONTENT_TYPE, "application/json").body(body).build()?;
        if let Some(token) = token {
            attach(request.headers_mut(), token);
        }
        let response = self.client.execute(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Answer { status, headers, body: response.bytes().await? })
    }
}
