use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use support::redis::RedisServer;

/// The processor time of this process and of the servers.
#[derive(Clone, Copy)]
pub struct Cpu {
    pub client: Duration,
    pub servers: Duration,
}

impl Cpu {
    pub fn now(servers: &[RedisServer]) -> Cpu {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let client = Duration::new(own.tv_sec as u64, own.tv_nsec as u32);
        let servers = servers.iter().map(|server| of(server.pid())).sum();
        Cpu { client, servers }
    }

    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { client: self.client - before.client, servers: self.servers - before.servers }
    }
}

/// The processor time of a server's main thread, in which it does all its work.
fn of(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}
