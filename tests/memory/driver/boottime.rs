//! The clock of the machine counts the time in which it was suspended.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::Duration;

use fencing::time::{Clock, SystemClock, Time};
use rustix::time::{ClockId, clock_gettime};

const CHILD: &str = "FENCING_SUSPENDED";
/// For how long the child's machine was suspended, in seconds.
const SUSPENDED: u64 = 1_000_000;

fn reading(clock: ClockId) -> Time {
    let now = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap(), u32::try_from(now.tv_nsec).unwrap());
    Time::from_start(Duration::new(seconds, nanos))
}

/// It can't fail on a machine that was never suspended: both clocks of the kernel agree there. See the next one.
#[test]
fn the_system_clock_is_that_which_counts_suspension() {
    let before = reading(ClockId::Boottime);
    let now = SystemClock.now();
    assert!(before <= now && now <= reading(ClockId::Boottime));
    if std::env::var_os(CHILD).is_some() {
        let monotonic = reading(ClockId::Monotonic);
        assert!(now.since(monotonic) > Duration::from_secs(SUSPENDED / 2), "no such namespace");
        println!("the clocks differ");
    }
}

/// In a time namespace the machine seems to have been suspended. Those who are not root need a user namespace for it.
#[test]
fn the_system_clock_counts_suspension_where_there_was_one() {
    let name = "driver::boottime::the_system_clock_is_that_which_counts_suspension";
    let test = std::env::current_exe().unwrap();
    let mut child = Command::new("unshare");
    child.args(["--user", "--map-root-user", "--time", "--boottime", &SUSPENDED.to_string()]).arg(test);
    child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    let output = child.output().expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("the clocks differ"), "{output:?}");
}
