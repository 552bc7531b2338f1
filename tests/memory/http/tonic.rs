//! A gRPC client and server of tonic, with a fence between them.

use ::tonic::body::Body as GrpcBody;
use ::tonic::client::Grpc;
use ::tonic::transport::{Channel, Endpoint, Server};
use ::tonic::{Code, Request as Call, Response as Answer, Status};
use futures_util::stream::{BoxStream, StreamExt, once, pending};
use http::uri::PathAndQuery;
use tokio_stream::wrappers::TcpListenerStream;
use tonic_prost::ProstCodec;

use super::*;

/// A message is a text.
type Text = ProstCodec<String, String>;
type Texts = BoxStream<'static, Result<String, Status>>;

/// What stands in generated code: methods by their paths.
async fn answer(request: Request<GrpcBody>) -> Response<GrpcBody> {
    let mut grpc = ::tonic::server::Grpc::new(Text::default());
    match request.uri().path() {
        "/files.Files/Write" => {
            let write = |call: Call<String>| {
                let fenced = call.extensions().get::<Fenced>().unwrap();
                ready(Ok::<_, Status>(Answer::new(format!("token {}", fenced.token))))
            };
            grpc.unary(tower::service_fn(write), request).await
        }
        // It ends by itself never.
        _ => {
            let watch = |_: Call<String>| async {
                let texts = once(async { Ok("first".to_owned()) }).chain(pending());
                Ok::<_, Status>(Answer::new(texts.boxed() as Texts))
            };
            grpc.server_streaming(tower::service_fn(watch), request).await
        }
    }
}

/// Serves, with one resource for all of the service.
async fn serve(fence: Fence) -> Channel {
    let layer = FenceLayer::new(fence, |_: &http::request::Parts| Resource::new("files"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tower::service_fn(|request| answer(request).map(Ok::<_, Infallible>));
    let server = Server::builder().layer(layer);
    tokio::spawn(server.serve_with_incoming(served, TcpListenerStream::new(listener)));
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    channel.connect().await.unwrap()
}

fn call(number: u64) -> Call<String> {
    let mut call = Call::new("x".to_owned());
    call.metadata_mut().insert("fencing-token", number.into());
    call
}

async fn ready_for(channel: &Channel) -> Grpc<Channel> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    grpc
}

#[tokio::test]
async fn a_stream_that_is_cut_off_ends_with_a_status_that_says_so() {
    let channel = serve(fence().drop_older_after(Duration::ZERO)).await;
    let watch = PathAndQuery::from_static("/files.Files/Watch");
    let watching = ready_for(&channel).await.server_streaming(call(33), watch, Text::default()).await.unwrap();
    let mut texts = watching.into_inner();
    assert_eq!(texts.message().await.unwrap().unwrap(), "first");
    let write = async || {
        let path = PathAndQuery::from_static("/files.Files/Write");
        ready_for(&channel).await.unary(call(34), path, Text::default()).await.unwrap().into_inner()
    };
    assert_eq!(write().await, "token 34");
    let status = texts.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let problem = Problem::read_grpc(status.metadata().as_ref()).expect("a problem");
    assert_eq!(problem.kind, Problem::SUPERSEDED);
    assert_eq!((problem.presented, problem.highest), (Some(token(33)), Some(token(34))));
    // The connection goes on.
    assert_eq!(write().await, "token 34");
}
