use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::cli::{PATIENCE, until};

/// The service, without the caller's environment for it.
pub fn storage_service() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storage_service"));
    command.env_remove("FENCING_REDIS").env_remove("DATABASE_URL").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// A running service; killed at the end of the test.
pub struct Service {
    pub child: Child,
    pub address: String,
}

impl Service {
    pub fn start(arguments: &[&str]) -> Service {
        let mut command = storage_service();
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").expect("it says where it listens").1;
        // Somebody has to read on, or the service blocks.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Service { child, address: address.to_owned() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits until it is ready.
    pub fn ready(self) -> Service {
        until("ready", || self.send("GET", "/readyz", &[], b"").status == 200);
        self
    }

    /// Waits until it ends without an error.
    pub fn ends_well(&mut self) {
        until("the end", || self.child.try_wait().unwrap().is_some());
        assert!(self.child.wait().unwrap().success());
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(head(method, path, headers, body.len()).as_bytes()).unwrap();
        // A server that refuses the head need not read the body.
        let _ = stream.write_all(body);
        Answer::read(stream)
    }

    /// Asks for a lease. The wish is JSON, or nothing.
    pub fn lease(&self, resource: &str, wish: &str) -> Answer {
        let kind = ["Content-Type: application/json"];
        self.send("POST", &format!("/leases/{resource}"), &kind, wish.as_bytes())
    }

    pub fn release(&self, lease: &Value) -> u16 {
        let path = format!("/leases/{}", lease["lease_id"].as_str().unwrap());
        self.send("DELETE", &path, &[], b"").status
    }

    pub fn put(&self, token: u64, body: &str) -> Answer {
        let header = format!("Fencing-Token: {token}");
        self.send("PUT", "/files/report", &[&header], body.as_bytes())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn head(method: &str, path: &str, headers: &[&str], length: usize) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: demo\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    )
}

/// What the service answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn read(mut stream: TcpStream) -> Answer {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}
