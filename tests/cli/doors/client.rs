//! A small HTTP client that sends what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use support::cli::PATIENCE;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The head of a request with these headers.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text + "\r\n"
}

/// Sends a request on a connection of its own, and reads the answer.
pub fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let length = body.len().to_string();
    let mut all = headers.to_vec();
    if !body.is_empty() || method == "PUT" {
        all.push(("Content-Length", &length));
    }
    let has_kind = headers.iter().any(|(name, _)| *name == "Content-Type");
    if path.starts_with("/leases/") && !body.is_empty() && !has_kind {
        all.push(("Content-Type", "application/json"));
    }
    let text = head(method, path, &all) + body;
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).unwrap();
    read(&mut BufReader::new(stream)).expect("an answer")
}

/// `PUT` with a token.
pub fn put(address: SocketAddr, path: &str, token: u64, body: &str) -> Answer {
    ask(address, "PUT", path, &[("Fencing-Token", &token.to_string())], body)
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, &[], "")
}

/// Reads one answer; `None` if the connection has ended.
pub fn read(stream: &mut BufReader<TcpStream>) -> Option<Answer> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: Vec::new() };
    if status == 100 {
        return read(stream);
    }
    if let Some(length) = answer.header("content-length") {
        let length: u64 = length.parse().unwrap();
        stream.take(length).read_to_end(&mut answer.body).unwrap();
    } else if answer.header("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            // One that breaks off has no last chunk.
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                break;
            }
            let size = u64::from_str_radix(line.trim(), 16).unwrap();
            stream.take(size).read_to_end(&mut answer.body).unwrap();
            stream.read_line(&mut line).unwrap();
            if size == 0 {
                break;
            }
        }
    } else if status != 204 {
        stream.read_to_end(&mut answer.body).unwrap();
    }
    Some(answer)
}
