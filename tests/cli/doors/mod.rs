//! `fencing serve`, `fencing proxy` and `fencing exporter` as processes, on real sockets.

pub mod client;
mod counted;
mod exporter;
mod flight;
mod framing;
mod grpc;
mod held;
mod leases;
mod limits;
mod marks;
mod moving;
mod odd;
mod passed;
mod patterns;
mod routes;
mod scenario;
mod signed;
mod stop;
mod streams;
mod time_wait;
pub mod upstream;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use support::cli::{Ended, end, fencing_at, heeding};
use support::process;
use support::redis::RedisServer;
use upstream::Upstream;

/// One of the two, until the end of the test.
pub struct Door {
    child: Option<Child>,
    pub requests: SocketAddr,
    pub status: SocketAddr,
}

impl Door {
    /// Starts it on free ports.
    pub fn start(mut command: Command) -> Door {
        command.stderr(Stdio::null());
        Door::start_logging(command)
    }

    /// The same, where somebody reads its log.
    pub fn start_logging(mut command: Command) -> Door {
        command.args(["--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |start: &str| {
            let line = lines.next().expect("it says where it listens").unwrap();
            line.strip_prefix(start).unwrap_or_else(|| panic!("{line}")).parse().unwrap()
        };
        let requests = address("requests on http://");
        let status = address("status on http://");
        // What it says at the end has a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Door { child: Some(child), requests, status }
    }

    /// A proxy with marks in memory, and no quarantine at its start.
    pub fn proxy(upstream: &Upstream, options: &[&str]) -> Door {
        let mut command = proxy(&upstream.url());
        command.args(["--forget-marks-on-exit", "--clean-start"]).args(options);
        Door::start(command)
    }

    /// A lock service on these nodes.
    pub fn serve(servers: &[RedisServer], options: &[&str]) -> Door {
        let mut command = fencing_at(&support::cli::urls(servers));
        // A busy machine takes the processors from the servers.
        command.args(["serve", "--node-budget", "250ms"]).args(options);
        Door::start(command)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    /// Waits for its end.
    pub fn ended(mut self) -> Ended {
        end(self.child.take().unwrap())
    }

    /// What a metric says now, zero if it is not there.
    pub fn metric(&self, line: &str) -> f64 {
        let answer = client::get(self.status, "/metrics");
        let found =
            answer.text().lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        found.map_or(0.0, |number| number.parse().unwrap())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `fencing proxy` before this service.
pub fn proxy(upstream: &str) -> Command {
    let mut command = heeding("fencing");
    command.args(["proxy", "--upstream", upstream]);
    command
}
