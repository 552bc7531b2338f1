//! Processor time: for the benches that report it.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Whose processor time counts.
#[derive(Debug, Clone)]
pub enum Cpu {
    /// This process: the database is a library.
    Own,
    /// The server with these processes, and those that they have started.
    Of(Vec<u32>),
}

impl Cpu {
    /// Returns the processor time so far, of all threads. A process that has ended does not count.
    pub fn so_far(&self) -> Duration {
        match self {
            Cpu::Own => {
                let own = clock_gettime(ClockId::ProcessCPUTime);
                Duration::new(own.tv_sec as u64, own.tv_nsec as u32)
            }
            Cpu::Of(pids) => pids.iter().map(|pid| of(*pid)).sum(),
        }
    }
}

fn of(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
