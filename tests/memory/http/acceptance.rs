//! The one promise, in every configuration, over real connections: a request with token 33 that pauses
//! after its check never lands after 34. A layer that only checks lets it land, in the same test.

use std::sync::Mutex;

use axum::extract::Request as AxumRequest;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tower_http::timeout::TimeoutLayer;

use super::*;

/// What stands around the handler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stack {
    Plain,
    TimeoutAbove,
    TimeoutBelow,
    DropOlder,
    DropOlderAfter,
}

use self::Stack::{DropOlder, DropOlderAfter, Plain, TimeoutAbove, TimeoutBelow};

#[derive(Clone, Copy, Debug)]
enum Http {
    One,
    Two,
}

/// Where the request with token 33 pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pause {
    Handler,
    Upload,
    Response,
}

type Written = Arc<Mutex<Vec<u64>>>;

/// Writes at its end, whether the request came to its end or was cut off.
struct Writes(u64, Written);

impl Drop for Writes {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// What a trial shares with its handler.
#[derive(Clone)]
struct Trial {
    pause: Pause,
    written: Written,
    marks: Arc<MemoryMarks>,
    began: watch::Sender<bool>,
    goes_on: watch::Sender<bool>,
}

async fn turned(to_true: &watch::Sender<bool>) {
    to_true.subscribe().wait_for(|is_true| *is_true).await.unwrap();
}

fn token_of(request: &AxumRequest) -> Token {
    request.headers()[HEADER].to_str().unwrap().parse().unwrap()
}

impl Trial {
    fn new(pause: Pause) -> Trial {
        let (began, goes_on) = (watch::Sender::new(false), watch::Sender::new(false));
        Trial { pause, written: Written::default(), marks: Arc::default(), began, goes_on }
    }

    async fn handle(self, request: AxumRequest) -> Body {
        let token = token_of(&request).get();
        let writes = Writes(token, Arc::clone(&self.written));
        if token != 33 {
            return Body::empty();
        }
        self.began.send_replace(true);
        match self.pause {
            Pause::Handler => turned(&self.goes_on).await,
            Pause::Upload => drop(request.into_body().collect().await),
            Pause::Response => {
                let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"begin"))]);
                let rest = stream::once(async move {
                    let _writes = writes;
                    turned(&self.goes_on).await;
                    Ok(Bytes::from_static(b"end"))
                });
                return Body::from_stream(first.chain(rest));
            }
        }
        Body::empty()
    }

    fn routes(&self) -> Router {
        let this = self.clone();
        let handler = put(move |request: AxumRequest| this.clone().handle(request));
        Router::new().route("/files/{name}", handler)
    }

    fn fenced(&self, stack: Stack) -> Router {
        let fence = Fence::new(Arc::clone(&self.marks)).limit(Duration::from_secs(60));
        let grace = Duration::from_millis(200);
        let timeout = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, grace);
        let routes = self.routes();
        match stack {
            Plain => routes.layer(layer(fence)),
            TimeoutAbove => routes.layer(layer(fence)).layer(timeout),
            TimeoutBelow => routes.layer(timeout).layer(layer(fence)),
            DropOlder => routes.layer(layer(fence.drop_older_after(Duration::ZERO))),
            DropOlderAfter => routes.layer(layer(fence.drop_older_after(grace))),
        }
    }

    /// Checks the token, and then lets the request through: what one would write oneself.
    fn naive(&self) -> Router {
        let marks = Arc::clone(&self.marks);
        let check = from_fn(move |request: AxumRequest, next: Next| {
            let marks = Arc::clone(&marks);
            async move {
                match marks.raise(&file(), token_of(&request)).await {
                    Ok(()) => next.run(request).await,
                    Err(_) => StatusCode::PRECONDITION_FAILED.into_response(),
                }
            }
        });
        self.routes().layer(check)
    }

    /// Sends 33, then 34 while 33 pauses, and then lets 33 go on. `needs`: 34 is let in only when 33
    /// has gone on. Returns what was written, in order.
    async fn run(self, app: Router, http: Http, needs: bool) -> Vec<u64> {
        let address = serve(app).await;
        let older = tokio::spawn(send(http, address, 33, self.clone()));
        turned(&self.began).await;
        let newer = tokio::spawn({
            let this = self.clone();
            // One that the limits of a busy machine have sent away comes again.
            async move { while send(http, address, 34, this.clone()).await != 200 {} }
        });
        while self.marks.highest(&file()).await.unwrap() < Some(token(34)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if needs {
            // Time to do what it must not do. It cannot make a fence fail that holds.
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.goes_on.send_replace(true);
        }
        newer.await.unwrap();
        self.goes_on.send_replace(true);
        older.await.unwrap();
        while !self.written.lock().unwrap().contains(&33) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let written = self.written.lock().unwrap().clone();
        assert!(written.contains(&34), "{written:?}");
        written
    }
}

/// Sends a request and reads the answer to its end. Returns the status, or 0 if there was none.
async fn send(http: Http, address: SocketAddr, token: u64, trial: Trial) -> u16 {
    let uploads = token == 33 && trial.pause == Pause::Upload;
    match http {
        Http::One => {
            let (length, half) = if uploads { (4, "da") } else { (0, "") };
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(http_1(token, length, half).as_bytes()).await.unwrap();
            if uploads {
                turned(&trial.goes_on).await;
                // It may have been cut off by now.
                let _ = stream.write_all(b"ta").await;
            }
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
        }
        Http::Two => {
            let mut client = http_2(address).await;
            let request = Request::put("http://x/files/a").header(HEADER, token).body(()).unwrap();
            let (response, mut upload) = client.send_request(request, !uploads).unwrap();
            if uploads {
                upload.send_data(Bytes::from_static(b"da"), false).unwrap();
                turned(&trial.goes_on).await;
                let _ = upload.send_data(Bytes::from_static(b"ta"), true);
            }
            let Ok(response) = response.await else { return 0 };
            let status = response.status().as_u16();
            let mut body = response.into_body();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
            }
            status
        }
    }
}

/// Whether 34 is let in only when 33 goes on: nothing cuts it off.
fn needs_33_to_go_on(stack: Stack, pause: Pause) -> bool {
    match stack {
        Plain => true,
        // They end with the head of the response.
        TimeoutAbove | TimeoutBelow => pause == Pause::Response,
        DropOlder | DropOlderAfter => false,
    }
}

#[tokio::test]
async fn a_request_that_pauses_after_its_check_never_lands_after_a_newer_one() {
    let mut trials = Vec::new();
    for stack in [Plain, TimeoutAbove, TimeoutBelow, DropOlder, DropOlderAfter] {
        for http in [Http::One, Http::Two] {
            for pause in [Pause::Handler, Pause::Upload, Pause::Response] {
                trials.push(async move {
                    let what = format!("{stack:?}, HTTP {http:?}, {pause:?}");
                    let trial = Trial::new(pause);
                    let app = trial.fenced(stack);
                    let written = trial.run(app, http, needs_33_to_go_on(stack, pause)).await;
                    assert_eq!(written[0], 33, "{what}: {written:?}");
                    assert!(written[1..].iter().all(|token| *token == 34), "{what}: {written:?}");
                    if stack != Plain {
                        return;
                    }
                    let trial = Trial::new(pause);
                    let app = trial.naive();
                    let written = trial.run(app, http, false).await;
                    assert_eq!(written, [34, 33], "{what}: nothing was tested");
                });
            }
        }
    }
    assert_eq!(trials.len(), 30);
    let ended = tokio::time::timeout(support::cli::PATIENCE, join_all(trials)).await;
    assert!(ended.is_ok(), "a trial does not end");
}
