//! An axum server on loopback: bare, behind a layer that looks at one header, and behind the fence. The client writes
//! the same bytes again and again: it should cost little beside the server.

use std::net::SocketAddr;
use std::time::Instant;

use axum::Router;
use axum::routing::put;
use fencing::Fence;
use fencing::fence::MemoryMarks;
use fencing::http::{FenceLayer, path};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower_http::validate_request::ValidateRequestHeaderLayer;

use crate::rounds::{median, turns};

const CONNECTIONS: usize = 8;
/// So many requests of one connection in one round.
const COUNT: usize = 2_000;

const WAYS: [&str; 3] = ["bare", "ValidateRequestHeader", "FenceLayer"];

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(to: SocketAddr, number: usize) -> Connection {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let request = format!(
            "PUT /invoices/2026/{number} HTTP/1.1\r\nhost: storage\r\naccept: application/json\r\n\
             fencing-token: 34\r\ncontent-length: 0\r\n\r\n"
        );
        let mut connection = Connection { stream, request: request.into_bytes(), answer: vec![0; 4096] };
        connection.stream.write_all(&connection.request).await.unwrap();
        // The date in it changes, its length does not.
        let bytes = connection.stream.read(&mut connection.answer).await.unwrap();
        assert!(connection.answer.starts_with(b"HTTP/1.1 200"));
        connection.answer.truncate(bytes);
        connection
    }

    async fn run(&mut self) {
        for _ in 0..COUNT {
            self.stream.write_all(&self.request).await.unwrap();
            self.stream.read_exact(&mut self.answer).await.unwrap();
        }
    }
}

pub fn measure(rounds: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let bare = Router::new().route("/invoices/2026/{number}", put(async || "stored"));
        let validate = ValidateRequestHeaderLayer::accept("application/json");
        let validated = bare.clone().layer(validate);
        let layer = FenceLayer::new(Fence::new(MemoryMarks::default()), path);
        let fenced = bare.clone().layer(layer);
        let mut sides = Vec::new();
        for app in [bare, validated, fenced] {
            let address = serve(app).await;
            sides.push(join_all((0..CONNECTIONS).map(|n| Connection::open(address, n))).await);
        }
        let mut found = vec![Vec::new(); WAYS.len()];
        for which in turns(rounds, WAYS.len()) {
            let start = Instant::now();
            join_all(sides[which].iter_mut().map(Connection::run)).await;
            found[which].push((CONNECTIONS * COUNT) as f64 / start.elapsed().as_secs_f64());
        }
        for (words, rates) in WAYS.iter().zip(&found) {
            let ratios = rates.iter().zip(&found[0]).map(|(rate, bare)| rate / bare);
            let (rate, ratio) = (median(rates.iter().copied()), median(ratios));
            println!("  {words:<28}{rate:>9.0}{ratio:>9.3} of bare");
        }
    });
}
