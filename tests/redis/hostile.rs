//! One or two of five nodes are no redis-servers at all.

use std::future::poll_fn;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use support::ports::serve_each;

use crate::fleet::*;

/// Reads one command. `None` where there is none any more.
fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(reader, '*')? {
        let mut word = vec![0; number(reader, '$')? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).ok()?);
    }
    Some(words)
}

fn number(reader: &mut impl BufRead, sign: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim().strip_prefix(sign)?.parse().ok()
}

/// The URL of a server that serves each connection until `None`.
fn fake(serve: impl Fn(TcpStream) -> Option<()> + Clone + Send + 'static) -> String {
    format!("redis://{}", serve_each(serve))
}

/// A text, as a server writes it.
fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// What a server says of itself that could be a node.
const INFO: &str = "run_id:0123\r\nrole:master\r\nloading:0\r\nmaxmemory:0\r\n";

/// What a fake server does with whatever it is sent.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Closes,
    Silent,
    /// Answers every command with these bytes.
    Says(&'static [u8]),
    /// Is a redis-server until a script is run, which it answers with these bytes.
    Scripts(&'static [u8]),
    /// Is a redis-server until a script is run, and closes then.
    ScriptsClose,
}

/// A server that answers the last `SCRIPT LOAD` and closes in one go.
fn closes_behind_the_scripts(stream: TcpStream) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let (mut reader, mut answers, mut scripts) = (BufReader::new(stream), String::new(), 0);
    while scripts < 6 {
        match command(&mut reader)?.first()?.as_str() {
            "INFO" => answers += &bulk(INFO),
            "SCRIPT" => {
                scripts += 1;
                answers += &bulk(&format!("{scripts:040x}"));
            }
            _ => answers += "+OK\r\n",
        }
        if scripts == 0 || scripts == 6 {
            writer.write_all(std::mem::take(&mut answers).as_bytes()).ok()?;
        }
    }
    writer.shutdown(std::net::Shutdown::Both).ok()
}

/// The end may come together with the last answer, and before the session is used.
#[tokio::test]
async fn a_server_that_closes_behind_the_scripts_breaks_nothing() {
    // Something else in the runtime takes its time, so that the answer and the end come together.
    tokio::spawn(async {
        loop {
            std::thread::sleep(Duration::from_millis(3));
            tokio::task::yield_now().await;
        }
    });
    let url = fake(closes_behind_the_scripts);
    let node = RedisNode::new(&url, "fencing").unwrap();
    let fleet = Fleet::new([node.member()]).unwrap();
    for _ in 0..50 {
        let Ok(session) = node.open(&fleet, "me").await else { continue };
        for _ in 0..2 {
            let fault = poll_fn(|context| session.poll_closed(context)).await;
            assert!(matches!(fault, Fault::Disconnected(_)), "{fault:?}");
        }
    }
}

fn client(urls: &[String]) -> RedlockBuilder {
    service(&[]).ttl(Duration::from_secs(2)).redis(urls)
}

fn serve(stream: TcpStream, manner: Manner) -> Option<()> {
    if matches!(manner, Manner::Closes) {
        return None;
    }
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let words = command(&mut reader)?;
        let answer = match (manner, words.first()?.as_str()) {
            (Manner::Silent, _) => continue,
            (Manner::Says(bytes), _) => bytes.to_vec(),
            (Manner::ScriptsClose, "EVAL") => return None,
            (Manner::Scripts(bytes), "EVAL") => numbered(bytes, words.last()?),
            (_, "INFO") => bulk(INFO).into_bytes(),
            _ => b"+OK\r\n".to_vec(),
        };
        writer.write_all(&answer).ok()?;
    }
}

/// The answer with the number of the request before it, if it is an array.
fn numbered(bytes: &[u8], number: &str) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let Some((count, rest)) = text.strip_prefix('*').and_then(|text| text.split_once("\r\n")) else {
        return bytes.to_vec();
    };
    match count.parse::<u32>() {
        Ok(count) => format!("*{}\r\n:{number}\r\n{rest}", count + 1).into_bytes(),
        Err(_) => bytes.to_vec(),
    }
}

const NONCE: &str = "$32\r\n00000000000000000000000000000000\r\n";

fn manners() -> Vec<Manner> {
    let leak = |text: String| -> &'static [u8] { text.into_bytes().leak() };
    let granted = |era: &str, count: &str| leak(format!("*5\r\n$7\r\ngranted\r\n:{era}\r\n:{count}\r\n{NONCE}:0\r\n"));
    let most = i64::MAX.to_string();
    let says = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
        b"$99999999999\r\n",
        b"*2147483647\r\n",
        b"\x00\xff\xfe\r\n\r\n",
        leak("*1\r\n".repeat(100_000)),
    ];
    let scripts = [
        b"*2\r\n$4\r\nheld\r\n:-9\r\n".as_slice(),
        b"*2\r\n$11\r\nquarantined\r\n:9223372036854775807\r\n",
        b"*2\r\n$4\r\nheld\r\n:9223372036854775807\r\n",
        b"*4\r\n$5\r\nstate\r\n:-1\r\n:-1\r\n:-1\r\n",
        b"*4\r\n$5\r\nstate\r\n:9223372036854775807\r\n:9223372036854775807\r\n:9223372036854775807\r\n",
        b"-NOSCRIPT \x1b[31m\r\n",
    ];
    let mut manners = vec![Manner::Closes, Manner::Silent, Manner::ScriptsClose];
    manners.extend(says.map(Manner::Says).into_iter().chain(scripts.map(Manner::Scripts)));
    for (era, count) in [("-1", "-1"), ("0", "0"), (&*most, &*most), ("1000000000", "1000000")] {
        manners.push(Manner::Scripts(granted(era, count)));
        manners.push(Manner::Scripts(leak(format!("*3\r\n:{era}\r\n{NONCE}:{count}\r\n"))));
    }
    manners
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_majority_goes_on() {
    let servers = five();
    // A fleet starts with all its nodes; two of the five turn later.
    let called = |(number, url): (usize, String)| format!("n{number}={url}");
    let urls: Vec<String> = servers.iter().map(RedisServer::url).enumerate().map(called).collect();
    let start = client(&urls).build().unwrap();
    let mut last = start.acquire(&resource()).await.unwrap().token();
    for manner in manners() {
        for hostile in [1, 2] {
            let mut urls = urls.clone();
            let turned = urls.iter_mut().take(hostile).enumerate();
            turned.for_each(|(number, url)| *url = called((number, fake(move |stream| serve(stream, manner)))));
            let builder = client(&urls).wait(Duration::from_secs(20));
            let redlock = builder.retry_delay(Duration::from_millis(5)).build().unwrap();
            for _ in 0..5 {
                let lease = redlock.acquire(&resource()).await;
                let lease = lease.unwrap_or_else(|e| panic!("{manner:?} {hostile}: {e}"));
                assert!(lease.token() > last, "{manner:?}");
                last = lease.token();
                let _ = lease.release().await;
            }
        }
    }
}

#[tokio::test]
async fn and_is_looked_at_without_harm() {
    for manner in manners() {
        let node = RedisNode::new(&fake(move |stream| serve(stream, manner)), "fencing").unwrap();
        let report = node.inspect(Duration::from_millis(100)).await;
        assert!(report.is_err(), "{manner:?}: {report:?}");
    }
}
