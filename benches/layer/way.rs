//! What stands before the handler, and the requests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fencing::Fence;
use fencing::fence::MemoryMarks;
use fencing::http::{FenceLayer, path};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Empty, Full};
use rustix::time::{ClockId, clock_gettime};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Bare,
    /// The least that a fence may do: it compares the token with the mark, in one map behind one lock. It
    /// keeps nothing apart that is in flight, and names no resource in another way than the path does.
    Map,
    Fence,
    /// The layer that stops older requests.
    DropOlder,
}

pub const WAYS: [(Way, &str); 4] = [
    (Way::Bare, "bare"),
    (Way::Map, "the least: a map of marks"),
    (Way::Fence, "FenceLayer"),
    (Way::DropOlder, "FenceLayer, drop_older_after(0)"),
];

/// Writes to the resources of a storage, in an order that no cache foresees.
pub struct Requests(Vec<Uri>);

impl Requests {
    pub fn to(resources: usize) -> Requests {
        let mut paths: Vec<Uri> =
            (0..resources).map(|number| format!("/invoices/2026/{number:07}").parse().unwrap()).collect();
        // Fisher and Yates, with the numbers of a linear congruential generator (Knuth, MMIX).
        let mut state: u64 = 4711;
        for place in (1..paths.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            paths.swap(place, (state >> 33) as usize % (place + 1));
        }
        Requests(paths)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn number(&self, number: usize) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = self.0[number % self.0.len()].clone();
        let headers = request.headers_mut();
        headers.insert("host", HeaderValue::from_static("storage"));
        headers.insert("accept", HeaderValue::from_static("application/json"));
        headers.insert("fencing-token", HeaderValue::from_static("34"));
        // As under axum: the server has put something there.
        request.extensions_mut().insert(number);
        request
    }
}

async fn handle(request: Request<Empty<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    std::hint::black_box(&request);
    Ok(Response::new(Full::new(Bytes::from_static(b"stored"))))
}

async fn run<S, R>(mut service: S, requests: &Requests, from: usize, count: usize) -> Duration
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>>,
    S::Error: std::fmt::Debug,
    R: http_body::Body + Unpin,
    R::Error: std::fmt::Debug,
{
    let start = cpu();
    for number in from..from + count {
        let request = requests.number(number);
        // A server has always read the path by now, whatever it does next.
        std::hint::black_box(request.uri().path().bytes().map(u32::from).sum::<u32>());
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert!(response.status().is_success());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            std::hint::black_box(frame.unwrap());
        }
    }
    cpu() - start
}

/// Processor time of this thread: another process that takes its processor does not count.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The least: one map behind one lock.
type Map = Arc<Mutex<HashMap<Box<str>, u64>>>;

async fn compare(map: Map, request: Request<Empty<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let token = request.headers().get("fencing-token").unwrap().to_str().unwrap().parse().unwrap();
    let passes = match map.lock().unwrap().get_mut(request.uri().path()) {
        Some(mark) if *mark > token => false,
        Some(mark) => {
            *mark = token;
            true
        }
        None => false,
    };
    assert!(passes);
    handle(request).await
}

/// One storage's fence, with a mark for each resource.
pub struct Storage {
    fence: Fence,
    map: Map,
}

impl Storage {
    pub async fn of(requests: &Requests) -> Storage {
        let marks = requests.0.iter().map(|uri| (uri.path().into(), 34));
        let map = Arc::new(Mutex::new(marks.collect()));
        let storage = Storage { fence: Fence::new(MemoryMarks::new(requests.len())), map };
        storage.run(Way::Fence, requests, 0, requests.len()).await;
        storage
    }

    pub async fn run(&self, way: Way, requests: &Requests, from: usize, count: usize) -> Duration {
        let handler = service_fn(handle);
        let builder = ServiceBuilder::new();
        match way {
            Way::Bare => run(handler, requests, from, count).await,
            Way::Map => {
                let map = Arc::clone(&self.map);
                let compare = service_fn(move |request| compare(Arc::clone(&map), request));
                run(compare, requests, from, count).await
            }
            Way::Fence => {
                let layer = FenceLayer::new(self.fence.clone(), path);
                run(builder.layer(layer).service(handler), requests, from, count).await
            }
            Way::DropOlder => {
                let layer = FenceLayer::new(self.fence.clone().drop_older_after(Duration::ZERO), path);
                run(builder.layer(layer).service(handler), requests, from, count).await
            }
        }
    }
}
