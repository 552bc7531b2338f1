//! Processes that a test has started: signals, and what the kernel says of them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything here takes: a test that comes here hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A process that is killed when this is dropped.
pub struct KilledOnDrop(pub Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process. `STOP` returns when each of its threads has stopped: the call
/// alone is back before they have, and on a busy machine one of them answers meanwhile.
pub fn signal(pid: u32, name: &str) {
    let mut kill = Command::new("kill");
    let status = kill.arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null()).status();
    // One that has just ended cannot be told.
    assert!(status.expect("kill runs").success() || !runs(pid), "kill -{name} {pid}");
    if name == "STOP" {
        until(&format!("{pid} stops"), || stands_still(pid));
    }
}

/// Kills processes, and waits until they have ended. Some may have ended before.
pub fn kill(pids: &[u32]) {
    for pid in pids {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
    }
    until("the killed process ends", || !pids.iter().any(|pid| runs(*pid)));
}

/// Whether the process is there and is more than a zombie.
pub fn runs(pid: u32) -> bool {
    state(&format!("/proc/{pid}/stat")).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// The processes that this one has started and that are there.
pub fn children_of(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| state(&format!("/proc/{pid}/stat")).is_some_and(|(_, of)| of == parent)).collect()
}

/// Whether each of its threads has stopped, or the process is not there.
pub fn stands_still(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let mut states =
        threads.flatten().filter_map(|thread| state(thread.path().join("stat").to_str().expect("a path of /proc")));
    states.all(|(state, _)| matches!(state, 'T' | 't' | 'Z' | 'X'))
}

/// The state and the parent, from a line of `/proc`; the name before them may hold anything.
fn state(file: &str) -> Option<(char, u32)> {
    let line = std::fs::read_to_string(file).ok()?;
    let mut fields = line.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Waits for a condition, and fails the test if it never comes.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < limit, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
