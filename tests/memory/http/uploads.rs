//! A large upload that is refused: the client learns why.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;

const LENGTH: usize = 8 << 20;

async fn served() -> SocketAddr {
    let write = |_: Fenced, body: Bytes| async move { body.len().to_string() };
    let routes = put(write).layer(axum::extract::DefaultBodyLimit::disable());
    serve(behind(fence(), routes)).await
}

/// A client that asks first, as curl does from a mebibyte on, gets its refusal in place of the go-ahead,
/// and sends nothing. One that is let in gets the go-ahead.
#[tokio::test]
async fn a_client_that_asks_first_is_refused_before_it_sends_its_upload() {
    let address = served().await;
    let ask = async |token: u64| {
        let head = http_1(token, LENGTH, "").replace("Host: x", "Host: x\r\nExpect: 100-continue");
        let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        (stream, line)
    };

    let (mut stream, line) = ask(34).await;
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    stream.write_all(&vec![b'x'; LENGTH]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("HTTP/1.1 200 OK") && answer.ends_with("8388608"), "{answer}");

    let (mut stream, line) = ask(33).await;
    assert_eq!(line, "HTTP/1.1 412 Precondition Failed\r\n");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("high water 34"), "{answer}");
}

/// Over HTTP 2 the answer does not depend on what the client still sends.
#[tokio::test]
async fn over_http_2_the_refusal_arrives_in_the_middle_of_the_upload() {
    let mut client = http_2(served().await).await;
    for (token, status) in [(34, 200), (33, 412)] {
        let request = Request::put("http://x/files/a").header(HEADER, token).body(()).unwrap();
        let (response, mut upload) = client.send_request(request, false).unwrap();
        upload.send_data(Bytes::from(vec![b'x'; LENGTH]), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), status);
        let mut body = response.into_body();
        let mut text = String::new();
        while let Some(data) = body.data().await {
            text += std::str::from_utf8(&data.unwrap()).unwrap();
        }
        assert!(text.contains(if status == 200 { "8388608" } else { "high water 34" }), "{text}");
    }
}
