//! A request ends with its future and body, and only then a newer one is let in: what was left to write is written.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock};

use fencing::http::FenceBody;
use http_body::{Frame, SizeHint};

use super::*;

pub type Door = Boxed<()>;
pub type Written = Arc<Mutex<Vec<u64>>>;

/// Writes what the handler had left when cut off, as a buffered writer does; meanwhile a request with token 34 knocks.
pub struct WritesOnDrop {
    written: Written,
    door: Arc<OnceLock<Door>>,
}

impl Drop for WritesOnDrop {
    fn drop(&mut self) {
        if let Some(door) = self.door.get() {
            let _ = door.clone().oneshot(put_with(34)).now_or_never();
        }
        self.written.lock().unwrap().push(33);
    }
}

/// A future that keeps what it has when it is ready, as the timeouts of tower do.
struct Lingering {
    outcome: Option<Result<Response<Body>, BoxError>>,
    _rest: Option<WritesOnDrop>,
}

impl Future for Lingering {
    type Output = Result<Response<Body>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.outcome.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// A body that keeps what it has when it is at its end.
struct LingeringBody {
    frames: VecDeque<Result<Frame<Bytes>, BoxError>>,
    knows_its_end: bool,
    hint: SizeHint,
    _rest: Option<WritesOnDrop>,
}

impl http_body::Body for LingeringBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.frames.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.knows_its_end && self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.hint.to_owned()
    }
}

const ENDINGS: [&str; 7] =
    ["fails", "answers", "body at its end", "body", "body that knows", "body with trailers", "body that fails"];

/// Ends a request like this, and keeps the rest for as long.
fn end(how: &str, rest: Option<WritesOnDrop>) -> Lingering {
    let data = || Ok(Frame::data(Bytes::from_static(b"data")));
    let (frames, knows_its_end) = match how {
        "fails" => return Lingering { outcome: Some(Err("failed".into())), _rest: rest },
        "answers" => {
            let outcome = Some(Ok(Response::new(Body::from("data"))));
            return Lingering { outcome, _rest: rest };
        }
        "body at its end" => (vec![], true),
        "body" => (vec![data()], false),
        "body that knows" => (vec![data()], true),
        "body with trailers" => (vec![data(), Ok(Frame::trailers(http::HeaderMap::new()))], true),
        _ => (vec![data(), Err("failed".into())], false),
    };
    let frames = VecDeque::from(frames);
    let body = LingeringBody { frames, knows_its_end, hint: SizeHint::default(), _rest: rest };
    Lingering { outcome: Some(Ok(Response::new(Body::new(body)))), _rest: None }
}

fn put_with(token: u64) -> Request<()> {
    Request::builder().method("PUT").uri("/a").header(HEADER, token).body(()).unwrap()
}

/// Sends 33, which ends like this, and then 34, through what `stack` builds. Returns what was written, in order.
async fn written(ending: &'static str, stack: impl FnOnce(Door) -> Door) -> Vec<u64> {
    let (written, outer) = (Written::default(), Arc::new(OnceLock::new()));
    let (log, knock_at) = (Arc::clone(&written), Arc::clone(&outer));
    let handler = tower::service_fn(move |request: Request<()>| {
        if request.headers()[HEADER] == "34" {
            log.lock().unwrap().push(34);
            return end("answers", None);
        }
        let (written, door) = (Arc::clone(&log), Arc::clone(&knock_at));
        end(ending, Some(WritesOnDrop { written, door }))
    });
    let door = stack(BoxCloneSyncService::new(handler));
    assert!(outer.set(door.clone()).is_ok());
    if let Ok(response) = door.clone().oneshot(put_with(33)).await {
        let mut body = response.into_body();
        while let Some(Ok(_)) = body.frame().await {}
        assert!(body.frame().await.is_none());
    }
    let response = door.oneshot(put_with(34)).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(response);
    let written = written.lock().unwrap().clone();
    assert!(written.contains(&33), "{written:?}");
    written
}

fn is_stale(written: &[u64]) -> bool {
    written.windows(2).any(|pair| pair == [34, 33])
}

/// Checks the token and then lets the request through: what one would write oneself.
fn naive(inner: Door) -> Door {
    let marks = Arc::new(MemoryMarks::default());
    boxed(tower::service_fn(move |request: Request<()>| {
        let (marks, inner) = (Arc::clone(&marks), inner.clone());
        async move {
            let token = request.headers()[HEADER].to_str().unwrap().parse().unwrap();
            marks.as_ref().raise(&Resource::new("a").unwrap(), token).await?;
            inner.oneshot(request).await
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn whatever_a_request_writes_at_its_end_comes_before_a_newer_one() {
    for ending in ENDINGS {
        for fence in [fence(), fence().drop_older_after(Duration::ZERO)] {
            // Directly around the service: what stands in between might drop its future.
            let stack = |inner: Door| boxed(layer(fence).layer(inner));
            assert_eq!(written(ending, stack).await, [33, 34], "{ending:?}");
        }
        assert!(is_stale(&written(ending, naive).await), "{ending:?}: nothing was tested");
    }
}

async fn answered(body: LingeringBody) -> FenceBody<LingeringBody> {
    let body = Arc::new(Mutex::new(Some(body)));
    let handler = tower::service_fn(move |_: Request<()>| {
        let body = body.lock().unwrap().take().unwrap();
        ready(Ok::<_, Infallible>(Response::new(body)))
    });
    layer(fence()).layer(handler).oneshot(put_with(33)).await.unwrap().into_body()
}

/// What a layer outside asks the body of, when the body within is gone.
#[tokio::test]
async fn a_body_that_has_ended_says_so() {
    let body = |frames: Vec<Result<Frame<Bytes>, BoxError>>, knows_its_end, hint| {
        let frames = VecDeque::from(frames);
        LingeringBody { frames, knows_its_end, hint, _rest: None }
    };
    let data = || Ok(Frame::data(Bytes::from_static(b"data")));

    // As the answer to a HEAD request may be: at its end, and it says how long it would be.
    let ended = answered(body(vec![], true, SizeHint::with_exact(10))).await;
    assert!(http_body::Body::is_end_stream(&ended));
    assert_eq!(http_body::Body::size_hint(&ended).exact(), Some(10));

    let mut ended = answered(body(vec![data()], false, SizeHint::with_exact(4))).await;
    assert!(!http_body::Body::is_end_stream(&ended));
    assert_eq!(http_body::Body::size_hint(&ended).exact(), Some(4));
    while ended.frame().await.is_some() {}
    assert!(http_body::Body::is_end_stream(&ended));
    assert_eq!(http_body::Body::size_hint(&ended).exact(), Some(0));
    assert!(ended.frame().await.is_none());

    let mut failed = answered(body(vec![Err("failed".into()), data()], false, SizeHint::new())).await;
    let error = failed.frame().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "failed");
    assert!(http_body::Body::is_end_stream(&failed));
    assert!(failed.frame().await.is_none(), "nothing comes after an error");
}
