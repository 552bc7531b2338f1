//! `fencing serve`, `fencing proxy` and `fencing exporter` as processes, on real sockets.

mod clients;
mod counters;
mod descriptions;
mod exporter;
mod flight;
mod forwarding;
mod framing;
mod grpc;
mod leases;
mod limits;
mod marks;
mod quarantine;
mod scenario;
mod seals;
mod signatures;
mod stalls;
mod stop;
mod tls;
mod upstream;

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::cli::{PATIENT, Place, Running, fencing, finish, five, run, until};
use support::http::{Answer, Client, ask, head};
use support::redis::RedisServer;
use upstream::Upstream;

const PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"];

/// One of the three, until the end of the test.
struct Door {
    process: Running,
    requests: SocketAddr,
    status: SocketAddr,
}

impl Door {
    /// Starts a proxy or a lock service on free ports.
    fn start(mut command: Command) -> Door {
        command.args(PORTS).stderr(Stdio::null());
        Door::listening(Running::start(command))
    }

    fn listening(mut process: Running) -> Door {
        let requests = process.until("requests on http").trim_start_matches(['s', ':', '/']).parse().unwrap();
        let status = process.until("status on http://").parse().unwrap();
        Door { process, requests, status }
    }

    /// A proxy with marks in memory, and no quarantine at its start.
    fn proxy(upstream: &str, options: &str) -> Door {
        Door::start(proxy(upstream, &format!("--forget-marks-on-exit --clean-start {options}")))
    }

    fn serve(place: &(impl Place + ?Sized), options: &str) -> Door {
        // A busy machine takes the processors from the servers.
        let command = fencing(place, &format!("serve --node-budget 4s {options}"));
        Door::start(command)
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(self.requests, method, path, headers, body)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    fn put(&self, path: &str, token: u64, body: &str) -> Answer {
        self.ask("PUT", path, &[("Fencing-Token", &token.to_string())], body)
    }

    /// A page of its status.
    fn page(&self, path: &str) -> Answer {
        ask(self.status, "GET", path, &[], "")
    }

    /// Begins a `PUT` with a token and an upload of this length, or in chunks.
    fn begin(&self, path: &str, token: u64, length: Option<usize>, body: &str) -> Client {
        let length = length.map(|length| length.to_string());
        let framing = match &length {
            Some(length) => ("Content-Length", length.as_str()),
            None => ("Transfer-Encoding", "chunked"),
        };
        let mut client = Client::connect(self.requests);
        let head = head("PUT", path, &[("Fencing-Token", &token.to_string()), framing]);
        client.send(head + body);
        client
    }

    /// An older request may be at work: 34 is told to come again.
    #[track_caller]
    fn is_closed(&self, path: &str) {
        let refused = self.put(path, 34, "34").is(503, "unavailable");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }

    #[track_caller]
    fn lets_in(&self, path: &str) {
        until("34 is let in", || self.put(path, 34, "34").status == 200);
    }

    /// Asks for a lease: `{"ttl_ms": 8000}`.
    fn acquire(&self, name: &str, wish: &str) -> Answer {
        self.ask("POST", &format!("/leases/{name}"), &[], wish)
    }

    /// A lease of this TTL in milliseconds, which is granted when the lock service has started.
    #[track_caller]
    fn lease(&self, name: &str, ttl: u64) -> Answer {
        let lease = self.acquire(name, &format!(r#"{{"ttl_ms": {ttl}, "wait_ms": 20000}}"#));
        assert_eq!(lease.status, 201, "{lease:?}");
        lease
    }

    /// Sends something about the lease of this answer.
    fn of(&self, lease: &Answer, method: &str) -> Answer {
        self.ask(method, &lease.path(), &[], "")
    }

    /// What a metric says now, zero if it is not there.
    fn metric(&self, line: &str) -> f64 {
        let answer = self.page("/metrics");
        let value = |found: &str| found.strip_prefix(line)?.strip_prefix(' ')?.parse().ok();
        answer.text().lines().find_map(value).unwrap_or(0.0)
    }

    fn given_up(&self, cause: &str) -> f64 {
        self.metric(&format!("fencing_proxy_given_up_total{{cause=\"{cause}\"}}"))
    }
}

fn proxy(upstream: &str, options: &str) -> Command {
    fencing("", &format!("proxy --upstream {upstream} {options}"))
}

fn proxied(options: &str) -> (Upstream, Door) {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream.url(), options);
    (upstream, door)
}

fn served(options: &str) -> (Vec<RedisServer>, Door) {
    let servers = five();
    let door = Door::serve(&servers, options);
    (servers, door)
}

/// A service, and a proxy before it, where the test answers in place of the service.
fn by_hand(options: &str) -> (TcpListener, Door) {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let door = Door::proxy(&format!("http://{}", service.local_addr().unwrap()), options);
    (service, door)
}

/// Whether this is the run of that test in a network namespace of its own, after these commands of a shell. If it is
/// not, it starts that run, which must pass.
fn is_in_namespace(test: &str, commands: &str) -> bool {
    const CHILD: &str = "FENCING_IN_NAMESPACE";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new("unshare");
    child.args(["--user", "--map-root-user", "--net", "sh", "-ec"]);
    child.arg(format!("ip link set lo up; {commands} exec \"$@\"")).arg("sh").arg(std::env::current_exe().unwrap());
    let output = child.args(["--exact", "--nocapture", test]).env(CHILD, "1").output().expect("unshare");
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    false
}
