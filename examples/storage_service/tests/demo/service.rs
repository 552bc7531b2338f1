use std::net::SocketAddr;
use std::process::{Command, Stdio};

use support::cli::{Running, until};
use support::http::{Answer, ask};

/// The service, without the caller's environment for it.
pub fn storage_service() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storage_service"));
    command.env_remove("FENCING_REDIS").env_remove("DATABASE_URL").stdin(Stdio::null());
    command.stderr(Stdio::null());
    command
}

/// A running service; killed at the end of the test.
pub struct Service {
    pub process: Running,
    pub address: SocketAddr,
}

impl Service {
    pub fn start(arguments: &[&str]) -> Service {
        Service::start_with(arguments, &[])
    }

    pub fn start_with(arguments: &[&str], environment: &[(&str, String)]) -> Service {
        let mut command = storage_service();
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut process = Running::start(command);
        let address = process.until("storage_service on http://").parse().unwrap();
        Service { process, address }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn ready(self) -> Service {
        until("ready", || self.get("/readyz").status == 200);
        self
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(self.address, method, path, headers, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// What the file of the other requests has in it.
    pub fn file(&self) -> String {
        self.get("/files/report").text().to_owned()
    }

    /// Asks for a lease. The wish is JSON, or nothing.
    pub fn lease(&self, resource: &str, wish: &str) -> Answer {
        self.send("POST", &format!("/leases/{resource}"), &[], wish)
    }

    pub fn release(&self, lease: &Answer) -> u16 {
        self.send("DELETE", &lease.path(), &[], "").status
    }

    pub fn put(&self, token: u64, body: &str) -> Answer {
        let token = token.to_string();
        self.send("PUT", "/files/report", &[("Fencing-Token", &token)], body)
    }
}
