//! A service that knows nothing of tokens, and writes down what it does.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use support::cli::until;
use support::http::{Client, header};

/// What the path begins with says how it answers: `/slow/` when the gate is open, `/cut/` not at all,
/// `/half/` with a second half when the gate is open, `/torn/` with no second half for token 33, `/early/` before
/// it reads the body (`/early/none` with nothing, `/early/chunks` in chunks), `/many/` with much, `/drip/` with as much
/// that takes days, `/kept/` and keeps its connection, and else with the head of the request.
#[derive(Clone)]
pub struct Upstream {
    pub address: SocketAddr,
    events: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

/// How much `/many/` answers with.
pub const MANY: usize = 1 << 28;

impl Upstream {
    pub fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (events, connections, gate) = (Arc::default(), Arc::default(), Arc::default());
        let upstream = Upstream { address, events, connections, gate };
        let serving = upstream.clone();
        std::thread::spawn(move || {
            loop {
                let mut client = Client::accepted(&listener);
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let serving = serving.clone();
                std::thread::spawn(move || while let Some(()) = serving.answer(&mut client) {});
            }
        });
        upstream
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has done: `begin PUT /slow/a 33`, `end PUT /slow/a 33`.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn until(&self, event: &str) {
        until(event, || self.events().iter().any(|found| found == event));
    }

    /// Asserts that 34 was not let in before the request with 33 had ended.
    #[track_caller]
    pub fn assert_order(&self, path: &str) {
        let events = self.events();
        let position = |event: &str| events.iter().position(|found| *found == event);
        let old = position(&format!("end PUT {path} 33")).expect("the older one ended");
        let new = position(&format!("begin PUT {path} 34")).expect("the newer one began");
        assert!(old < new, "{events:?}");
    }

    pub fn open(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }

    fn wait(&self) {
        let open = self.gate.0.lock().unwrap();
        drop(self.gate.1.wait_while(open, |open| !*open).unwrap());
    }

    fn note(&self, text: String) {
        self.events.lock().unwrap().push(text);
    }

    fn answer(&self, client: &mut Client) -> Option<()> {
        let head = client.read_head()?;
        let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
        let path = line.split(' ').nth(1)?.to_owned();
        let token = header(&head, "fencing-token").unwrap_or_default();
        let what = format!("{line} {token}").trim().to_owned();
        self.note(format!("begin {what}"));
        let kind = path.split('/').nth(1)?;
        if kind == "early" {
            let answer = match path.as_str() {
                "/early/none" => "Content-Length: 0\r\n\r\n",
                "/early/chunks" => "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                _ => "Content-Length: 2\r\n\r\nok",
            };
            client.try_send(format!("HTTP/1.1 200 OK\r\n{answer}")).ok()?;
        }
        let read = match client.read_body(&head) {
            Some((body, whole)) => whole.then_some(body.len())?,
            None => 0,
        };
        if kind == "cut" {
            self.note(format!("cut {what}"));
            return None;
        }
        let length = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let mut send = |bytes: &[u8]| client.try_send(bytes).ok();
        if matches!(kind, "half" | "torn") {
            send((length(10) + "first").as_bytes())?;
        }
        if matches!(kind, "slow" | "half" | "torn") {
            self.wait();
        }
        self.note(format!("end {what}"));
        match kind {
            "early" => Some(()),
            "torn" if token == "33" => None,
            "half" | "torn" => send(b"third"),
            "kept" => send(length(0).as_bytes()),
            "many" => {
                send(length(MANY).as_bytes())?;
                let piece = vec![b'x'; 1 << 20];
                (0..MANY >> 20).try_for_each(|_| send(&piece))
            }
            "drip" => {
                send(length(MANY).as_bytes())?;
                loop {
                    send(b"drip")?;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => {
                let own = format!("Connection: close, X-Own\r\nX-Own: 1\r\nX-Read: {read}\r\n");
                let answer = length(head.len()).replace("\r\n\r\n", &format!("\r\n{own}\r\n"));
                send((answer + &head).as_bytes())?;
                None
            }
        }
    }
}
