//! Clients that stop amid an upload or a download. Nobody polls a response then, yet a newer token gets its turn.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// 33 is answered without end; others are answered `written`.
fn endless(fence: Fence) -> Router {
    let handler = |Fenced { token, .. }: Fenced| async move {
        if token.get() != 33 {
            return Body::from("written");
        }
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        Body::from_stream(futures_util::stream::repeat(Ok::<_, Infallible>(chunk)))
    };
    behind(fence, put(handler))
}

async fn sent(address: SocketAddr, token: u64) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(http_1(token, 0, "").as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_stops_reading_is_cut_off_over_http_1() {
    // Whether the server polls the body once more depends on what its buffers hold by then.
    for trial in 0..8 {
        let fence = fence().drop_older_after(Duration::ZERO).limit(Duration::from_secs(60));
        let address = serve(endless(fence)).await;
        let mut older = sent(address, 33).await;
        // It reads the beginning, and then nothing until all buffers on the way are full.
        older.read_exact(&mut vec![0; 100_000 * trial + 1]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut newer = String::new();
        sent(address, 34).await.read_to_string(&mut newer).await.unwrap();
        assert!(newer.starts_with("HTTP/1.1 200"), "{trial}: {newer}");
        // What it reads on ends without the last chunk: it is not taken for the whole.
        let mut rest = Vec::new();
        let _ = older.read_to_end(&mut rest).await;
        assert!(!rest.ends_with(b"0\r\n\r\n"));
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_is_cut_off_over_http_2() {
    let fence = fence().drop_older_after(Duration::ZERO).limit(Duration::from_secs(60));
    let mut client = http_2(serve(endless(fence)).await).await;
    let mut send = |token: u64| {
        let request = Request::put("http://x/files/a").header(HEADER, token);
        client.send_request(request.body(()).unwrap(), true).unwrap().0
    };
    // It gives back no window.
    let mut older = send(33).await.unwrap().into_body();
    assert!(older.data().await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..3 {
        assert_eq!(send(34).await.unwrap().status(), 200);
    }
    let mut end = Ok(());
    while let Some(data) = older.data().await {
        end = data.map(|data| older.flow_control().release_capacity(data.len()).unwrap());
        if end.is_err() {
            break;
        }
    }
    assert!(end.is_err(), "it was told that the answer broke off");
}

/// Answers without end, and panics where an older body is there yet.
fn alone(fence: Fence) -> Router {
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    let handler = move |Fenced { .. }: Fenced| async move {
        assert_eq!(alive.fetch_add(1, Ordering::SeqCst), 0, "an older body is there yet");
        let body = Alive(alive);
        Body::from_stream(futures_util::stream::repeat_with(move || {
            assert_eq!(body.0.load(Ordering::SeqCst), 1);
            Ok::<_, Infallible>(Bytes::from_static(b"data"))
        }))
    };
    behind(fence, put(handler))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_polls_is_dropped_first() {
    let app = alone(fence().drop_older_after(Duration::ZERO));
    let mut older = write(&app, 33).await.into_body();
    assert!(older.frame().await.unwrap().is_ok());
    assert_eq!(write(&app, 34).await.status(), 200);
    assert!(!http_body::Body::is_end_stream(&older), "it is to be told");
    let error = older.frame().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("cut off by a newer request"), "{error}");
    assert!(older.frame().await.is_none() && http_body::Body::is_end_stream(&older));
}

/// The handler ends when the newer request has asked for the end of the older one, and nobody polls the body. What has
/// ended is answered as it ended.
#[tokio::test(start_paused = true)]
async fn a_body_that_comes_after_a_newer_request_is_dropped_at_once() {
    let ends = Arc::new(Notify::new());
    let ended = Arc::clone(&ends);
    let handler = move |Fenced { token, .. }: Fenced| async move {
        if token.get() == 34 {
            return Body::from("written");
        }
        ended.notified().await;
        Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>())
    };
    let app = behind(fence().drop_older_after(Duration::ZERO), put(handler));
    let older = begun(app.clone().oneshot(request("PUT", &["33"])));
    let newer = begun(app.oneshot(request("PUT", &["34"])));
    ends.notify_one();
    let older = older.await.unwrap();
    assert_eq!((older.status(), newer.await.unwrap().status()), (StatusCode::OK, StatusCode::OK));
    assert!(older.into_body().frame().await.unwrap().is_err());
}

/// The newer request comes while the older body is being polled, in the same task.
#[tokio::test(start_paused = true)]
async fn a_newer_request_in_the_middle_of_a_poll_waits_for_its_end() {
    let fence = fence().drop_older_after(Duration::ZERO);
    let inner = fence.clone();
    let handler = move |Fenced { .. }: Fenced| async move {
        Body::from_stream(futures_util::stream::repeat_with(move || {
            let newer = inner.admit(&file(), token(34)).now_or_never();
            assert!(newer.is_none(), "33 is in flight yet");
            Ok::<_, Infallible>(Bytes::from_static(b"data"))
        }))
    };
    let app = behind(fence.clone(), put(handler));
    let mut older = write(&app, 33).await.into_body();
    assert_eq!(older.frame().await.unwrap().unwrap().into_data().unwrap(), "data");
    assert!(older.frame().await.unwrap().is_err(), "cut off");
    assert!(fence.admit(&file(), token(34)).now_or_never().unwrap().is_ok());
}

/// Each request is the newer one of the last, whose body is polled without a pause meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_gone_before_a_newer_request_however_they_race() {
    let fence = fence().drop_older_after(Duration::ZERO);
    let app = alone(fence.clone());
    let mut readers = Vec::new();
    for number in 1..=2000 {
        let response = ask(&app, request("PUT", &[&number.to_string()])).await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        readers.push(tokio::spawn(async move { while let Some(Ok(_)) = body.frame().await {} }));
    }
    let _newest = fence.admit(&file(), token(3000)).await.unwrap();
    futures_util::future::try_join_all(readers).await.unwrap();
}
