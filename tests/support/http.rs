//! A small HTTP client that sends what it is told to.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::cli::PATIENCE;
use serde_json::Value;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn token(&self) -> u64 {
        self.json()["token"].as_u64().unwrap_or_else(|| panic!("no lease: {self:?}"))
    }

    #[track_caller]
    pub fn path(&self) -> String {
        let json = self.json();
        format!("/leases/{}", json["lease_id"].as_str().unwrap_or_else(|| panic!("{json}")))
    }

    /// Asserts the status and the kind of the problem.
    #[track_caller]
    pub fn is(self, status: u16, problem: &str) -> Answer {
        let problem = format!("urn:fencing:{problem}");
        assert_eq!((self.status, &self.json()["type"]), (status, &problem.into()), "{self:?}");
        self
    }
}

/// What the head of a message says under this name.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::of(TcpStream::connect(address).unwrap())
    }

    pub fn accepted(service: &TcpListener) -> Client {
        Client::of(service.accept().unwrap().0)
    }

    pub fn of(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    pub fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }

    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    /// Reads lines until what was read ends so.
    #[track_caller]
    pub fn read_until(&mut self, end: &str) -> String {
        let mut seen = String::new();
        while !seen.ends_with(end) {
            assert!(self.0.read_line(&mut seen).unwrap() > 0, "{seen}");
        }
        seen
    }

    pub fn lines(self) -> impl Iterator<Item = String> {
        self.0.lines().map_while(Result::ok)
    }

    /// Reads so many bytes, if they come.
    pub fn read(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// What comes until the connection ends, or breaks off.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.0.read_to_end(&mut rest) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "the connection stays open");
        }
        rest
    }

    /// Reads one answer; `None` if the connection has ended.
    pub fn try_answer(&mut self) -> Option<Answer> {
        let head = self.read_head()?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        if status == 100 {
            return self.try_answer();
        }
        let body = match self.read_body(&head) {
            Some((body, _)) => body,
            None if status == 204 => Vec::new(),
            None => {
                let mut body = Vec::new();
                self.0.read_to_end(&mut body).unwrap();
                body
            }
        };
        Some(Answer { status, head, body })
    }

    /// Reads the head of a message; `None` if the connection has ended.
    pub fn read_head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).unwrap_or(0) == 0 {
                return None;
            }
        }
        Some(head)
    }

    /// Reads the body behind this head, and whether it is whole; `None` if the head announces none.
    pub fn read_body(&mut self, head: &str) -> Option<(Vec<u8>, bool)> {
        let mut body = Vec::new();
        if let Some(length) = header(head, "content-length") {
            let length: usize = length.parse().unwrap();
            (&mut self.0).take(length as u64).read_to_end(&mut body).unwrap();
            let whole = body.len() == length;
            return Some((body, whole));
        }
        header(head, "transfer-encoding")?;
        let whole = self.read_chunks(&mut body);
        Some((body, whole))
    }

    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer")
    }

    /// Chunks that break off have no last one.
    fn read_chunks(&mut self, body: &mut Vec<u8>) -> bool {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap_or(0) > 0 {
            let size = u64::from_str_radix(line.trim(), 16).unwrap();
            (&mut self.0).take(size).read_to_end(body).unwrap();
            self.0.read_line(&mut line).unwrap();
            if size == 0 {
                return true;
            }
            line.clear();
        }
        false
    }
}

pub fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{}\r\n", headers.collect::<String>())
}

/// Sends a request on a connection of its own, and reads the answer.
pub fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let length = body.len().to_string();
    let mut all = headers.to_vec();
    if !body.is_empty() || method == "PUT" {
        all.push(("Content-Length", &length));
    }
    let has_kind = headers.iter().any(|(name, _)| *name == "Content-Type");
    if path.starts_with("/leases/") && !body.is_empty() && !has_kind {
        all.push(("Content-Type", "application/json"));
    }
    let mut client = Client::connect(address);
    // A server that refuses the head need not read the body.
    let _ = client.try_send(head(method, path, &all) + body);
    client.answer()
}
