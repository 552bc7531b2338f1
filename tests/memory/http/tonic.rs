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

/// What stands in generated code: methods by their paths. Counts what was written.
async fn answer(written: Arc<AtomicUsize>, request: Request<GrpcBody>) -> Response<GrpcBody> {
    let mut grpc = ::tonic::server::Grpc::new(Text::default());
    match request.uri().path() {
        "/files.Files/Write" => {
            let write = move |call: Call<String>| {
                written.fetch_add(1, Ordering::SeqCst);
                let fenced = call.extensions().get::<Fenced>().unwrap();
                ready(Ok::<_, Status>(Answer::new(format!("token {}", fenced.token))))
            };
            grpc.unary(tower::service_fn(write), request).await
        }
        // It ends by itself never.
        "/files.Files/Watch" => {
            let watch = |_: Call<String>| async {
                let texts = once(async { Ok("first".to_owned()) }).chain(pending());
                Ok::<_, Status>(Answer::new(texts.boxed() as Texts))
            };
            grpc.server_streaming(tower::service_fn(watch), request).await
        }
        _ => Status::unimplemented("").into_http(),
    }
}

/// Serves, with one resource for all of the service.
async fn serve(fence: Fence) -> (Arc<AtomicUsize>, Channel) {
    let layer = FenceLayer::new(fence, |_: &http::request::Parts| Resource::new("files"));
    let written = Arc::<AtomicUsize>::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::clone(&written);
    let served = tower::service_fn(move |request| answer(Arc::clone(&count), request).map(Ok::<_, Infallible>));
    let server = Server::builder().layer(layer);
    tokio::spawn(server.serve_with_incoming(served, TcpListenerStream::new(listener)));
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    (written, channel.connect().await.unwrap())
}

fn path(method: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(method)
}

fn call(text: &str, number: Option<u64>) -> Call<String> {
    let mut call = Call::new(text.to_owned());
    if let Some(number) = number {
        call.metadata_mut().insert("fencing-token", number.into());
    }
    call
}

async fn unary(channel: &Channel, method: &'static str, call: Call<String>) -> Result<String, Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    grpc.unary(call, path(method), Text::default()).await.map(Answer::into_inner)
}

fn problem_of(status: &Status) -> Problem {
    Problem::read_grpc(&status.metadata().clone().into_headers()).expect("a problem")
}

#[tokio::test]
async fn statuses_are_typed_and_stale_is_read_back() {
    let (written, channel) = serve(fence()).await;
    let write = async |number| unary(&channel, "/files.Files/Write", call("x", number)).await;
    assert_eq!(write(Some(34)).await.unwrap(), "token 34");

    let status = write(Some(33)).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(status.message(), "token 33 of files is stale, high water 34");
    let stale = problem_of(&status).stale().unwrap();
    assert_eq!((stale.presented, stale.highest), (token(33), token(34)));
    assert_eq!(stale.resource.as_str(), "files");

    let status = write(None).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(problem_of(&status).kind, Problem::MISSING);
    assert_eq!(written.load(Ordering::SeqCst), 1);

    // What the service itself refuses stays as it is.
    let status = unary(&channel, "/files.Files/Nothing", call("", Some(34))).await;
    assert_eq!(status.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_stream_that_is_cut_off_ends_with_a_status_that_says_so() {
    let (_, channel) = serve(fence().drop_older_after(Duration::ZERO)).await;
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let watch = path("/files.Files/Watch");
    let watching = grpc.server_streaming(call("", Some(33)), watch, Text::default()).await.unwrap();
    let mut texts = watching.into_inner();
    assert_eq!(texts.message().await.unwrap().unwrap(), "first");
    unary(&channel, "/files.Files/Write", call("x", Some(34))).await.unwrap();
    let status = texts.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let problem = problem_of(&status);
    assert_eq!(problem.kind, Problem::SUPERSEDED);
    assert_eq!((problem.presented, problem.highest), (Some(token(33)), Some(token(34))));
    // The connection goes on.
    unary(&channel, "/files.Files/Write", call("x", Some(34))).await.unwrap();
}
