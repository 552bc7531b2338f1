//! `fencing proxy --upstream-http2` between a client and a server of tonic.

use std::sync::Arc;

use axum::routing::any;
use fencing::http::Problem;
use futures_util::stream::{BoxStream, StreamExt, iter, once};
use http::uri::PathAndQuery;
use tokio::sync::Notify;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::*;

/// A message is a text.
type Text = ProstCodec<String, String>;

type Texts = BoxStream<'static, Result<String, Status>>;

/// What a service answers that knows nothing of tokens. The second message of a stream waits for the gate.
async fn answer(gate: Arc<Notify>, request: axum::extract::Request) -> http::Response<Body> {
    let mut grpc = tonic::server::Grpc::new(Text::default());
    match request.uri().path() {
        // It ends with a status of its own, in its trailers.
        "/files.Files/Watch" => {
            let watch = move |_: Request<String>| {
                let gate = Arc::clone(&gate);
                let mut end = Status::data_loss("the end");
                end.metadata_mut().insert("x-end", "1".parse().unwrap());
                let second = once(async move {
                    gate.notified().await;
                    Ok("second".to_owned())
                });
                let first = once(async { Ok("first".to_owned()) });
                let texts: Texts = first.chain(second).chain(iter([Err(end)])).boxed();
                async move { Ok::<_, Status>(Response::new(texts)) }
            };
            grpc.server_streaming(service_fn(watch), request).await
        }
        _ => {
            let write = async |call: Request<Streaming<String>>| {
                let (mut texts, mut all) = (call.into_inner(), 0);
                while let Some(text) = texts.message().await? {
                    all += text.len();
                }
                Ok::<_, Status>(Response::new(format!("wrote {all}")))
            };
            grpc.client_streaming(service_fn(write), request).await
        }
    }
}

/// The gate of the service, the proxy before it, and a client of the proxy. All methods are about one resource.
async fn started(options: &str) -> (Arc<Notify>, Door, Grpc<Channel>) {
    let gate = Arc::<Notify>::default();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let upstream = format!("http://{}", incoming.local_addr().unwrap());
    let of_service = Arc::clone(&gate);
    let answer = any(move |request| answer(Arc::clone(&of_service), request));
    let routes = Routes::from(axum::Router::new().fallback_service(answer));
    let server = Server::builder().add_routes(routes).serve_with_incoming(incoming);
    tokio::spawn(server);
    let own = "--upstream-http2 --limit 300ms --resource-from /files.Files/**=files";
    let door = Door::proxy(&upstream, &format!("{own} {options}"));
    let channel = Endpoint::from_shared(format!("http://{}", door.requests)).unwrap();
    (gate, door, Grpc::new(channel.connect().await.unwrap()))
}

fn call<T>(message: T, token: u64) -> Request<T> {
    let mut call = Request::new(message);
    call.metadata_mut().insert("fencing-token", token.into());
    call
}

async fn upload(client: &mut Grpc<Channel>, texts: usize, token: u64) -> Result<String, Status> {
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/files.Files/Write");
    let texts = iter(vec!["x".repeat(1000); texts]);
    let answer = client.client_streaming(call(texts, token), path, Text::default()).await?;
    Ok(answer.into_inner())
}

/// A stream of a thousand texts.
async fn write(client: &mut Grpc<Channel>, token: u64) -> String {
    upload(client, 1000, token).await.unwrap()
}

/// A call that gets no further than the proxy. It answers before the upload has ended, which a client may take for the
/// end of its stream where the rest is long.
async fn refused(client: &mut Grpc<Channel>, token: u64) -> Status {
    upload(client, 10, token).await.unwrap_err()
}

/// A stream with token 34, of which the first text has come.
async fn watched(client: &mut Grpc<Channel>) -> Streaming<String> {
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/files.Files/Watch");
    let watch = call("".to_owned(), 34);
    let mut texts = client.server_streaming(watch, path, Text::default()).await.unwrap().into_inner();
    assert_eq!(texts.message().await.unwrap().as_deref(), Some("first"));
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_of_the_proxy_is_a_grpc_status() {
    let (gate, _door, mut client) = started("--requests 1").await;
    let _texts = watched(&mut client).await;
    let full = refused(&mut client, 35).await;
    assert_eq!(full.code(), Code::Unavailable, "{full:?}");
    assert_eq!(full.message(), "too many requests are in progress; nothing was sent");
    let problem = Problem::read_grpc(full.metadata().as_ref()).unwrap();
    assert_eq!((problem.kind.as_str(), problem.status), (Problem::UNAVAILABLE, 503));
    gate.notify_one();
    let door = Door::proxy("http://127.0.0.1:1", "--resource-from /files.Files/**=files");
    let channel = Endpoint::from_shared(format!("http://{}", door.requests)).unwrap();
    let down = refused(&mut Grpc::new(channel.connect().await.unwrap()), 1).await;
    assert_eq!(down.code(), Code::Unavailable, "{down:?}");
    assert!(down.message().ends_with("nothing was sent"), "{down:?}");
    // A client of gRPC-Web reads the statuses of HTTP.
    let web = [("Content-Type", "application/grpc-web+proto"), ("Fencing-Token", "1")];
    assert_eq!(door.ask("POST", "/files.Files/Write", &web, "").status, 502);
}

/// Messages come one by one, the status of the service comes in the trailers, and the call is in flight until then.
#[tokio::test(flavor = "multi_thread")]
async fn streams_and_trailers_pass_and_are_in_flight() {
    let (gate, _door, mut client) = started("").await;
    let mut texts = watched(&mut client).await;
    // The service waits in the middle of its answer.
    let waited = refused(&mut client, 35).await;
    assert_eq!(waited.code(), Code::Unavailable, "{waited:?}");
    gate.notify_one();
    assert_eq!(texts.message().await.unwrap().as_deref(), Some("second"));
    let end = texts.message().await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::DataLoss, "the end"));
    assert_eq!(end.metadata().get("x-end").unwrap(), "1");
    assert_eq!(write(&mut client, 35).await, "wrote 1000000");
    assert_eq!(refused(&mut client, 34).await.code(), Code::Aborted);
}
