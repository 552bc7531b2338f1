//! A ledger behind the fence, with tonic.
//!
//! `tonic_service serve 127.0.0.1:8080`, and then `tonic_service http://127.0.0.1:8080 34 text`.

use std::convert::Infallible;

use fencing::fence::MemoryMarks;
use fencing::http::{AttachLayer, FenceLayer, Fenced, Policy};
use fencing::{Fence, Resource, Sequencer};
use http::{request::Parts, uri::PathAndQuery};
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status, body::Body};
use tonic_prost::ProstCodec;
use tower::{Layer, service_fn};

/// What `tonic-build` makes of your messages; here each is a text.
type Text = ProstCodec<String, String>;

/// The fence refuses stale calls, and calls without a token, before they reach this method.
async fn append(call: Request<String>) -> Result<Response<String>, Status> {
    let fenced = call.extensions().get::<Fenced>().ok_or(Status::internal("no fence"))?;
    Ok(Response::new(format!("token {} wrote {}", fenced.token, call.get_ref())))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, second, text @ ..] = &arguments[..] else {
        anyhow::bail!("usage: tonic_service serve ADDRESS, or tonic_service URL TOKEN TEXT")
    };
    if first == "serve" {
        let name = |_: &Parts| Resource::new("ledger");
        let layer = FenceLayer::new(Fence::new(MemoryMarks::default()), name).policy(|request| {
            let is_health = request.uri.path().starts_with("/grpc.health.v1.Health/");
            if is_health { Policy::Ignored } else { Policy::Required }
        });
        let incoming = TcpIncoming::bind(second.parse()?)?;
        println!("listening on http://{}", incoming.local_addr()?);
        let ledger = service_fn(|request: http::Request<Body>| async {
            let answer = tonic::server::Grpc::new(Text::default()).unary(service_fn(append), request).await;
            Ok::<_, Infallible>(answer)
        });
        Server::builder().layer(layer).serve_with_incoming(ledger, incoming).await?;
        return Ok(());
    }
    let held = Sequencer::new(Resource::new("ledger")?, second.parse()?); // or your Lease
    let channel = Endpoint::from_shared(first.clone())?.connect().await?;
    let mut client = tonic::client::Grpc::new(AttachLayer::new(held).layer(channel));
    client.ready().await?;
    let path = PathAndQuery::from_static("/ledger.Ledger/Append");
    let answered = client.unary(Request::new(text.join(" ")), path, Text::default()).await;
    match answered {
        Err(refused) if refused.code() == Code::Aborted => println!("{}", refused.message()),
        answered => println!("{}", answered?.get_ref()),
    }
    Ok(())
}
