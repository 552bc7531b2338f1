//! The guard: a small process that stops the command if `fencing run` dies, even by SIGKILL,
//! before the command has ended.
//!
//! It learns of the command right after the start. If `fencing run` is killed between the two, within
//! microseconds mostly, nobody stops the command.
//!
//! It holds the reading end of a pipe and nothing else. A signal that the kernel sends at the
//! parent's death would reach only the command, and not its process group.

use std::io::{self, BufRead, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::target::{GRACE, Target};
use crate::{exit, say};

/// The guard, as `fencing run` sees it.
pub(super) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard, before the command is started.
    pub(super) fn start() -> io::Result<Guard> {
        // The path of a program that was replaced meanwhile leads to another.
        let own = if cfg!(target_os = "linux") {
            Ok("/proc/self/exe".into())
        } else {
            std::env::current_exe()
        };
        let mut child = Command::new(own?)
            .arg0("fencing")
            .arg("guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Guard { child, pipe })
    }

    /// Names the processes to stop.
    pub(super) fn watch(&mut self, target: Target) -> io::Result<()> {
        let line = match target {
            Target::Group(group) => format!("group {}\n", group.as_raw_nonzero()),
            Target::Process(process) => format!("process {}\n", process.as_raw_nonzero()),
        };
        self.send(&line)
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        self.pipe.as_mut().map_or(Ok(()), |pipe| pipe.write_all(line.as_bytes()))
    }
}

impl Drop for Guard {
    /// The command has ended, or never began.
    fn drop(&mut self) {
        let _ = self.send("done\n");
        self.pipe = None;
        let _ = self.child.wait();
    }
}

/// Runs as the guard: waits for the end of `fencing run`.
pub(crate) fn main() -> ExitCode {
    let mut lines = stdin().lock().lines().map_while(Result::ok);
    let Some(target) = lines.next().and_then(|line| target(&line)) else {
        return ExitCode::SUCCESS;
    };
    if lines.next().is_some() {
        return ExitCode::SUCCESS;
    }
    say::error("`fencing run` was killed: the command is stopped");
    let everybody = target.everybody();
    everybody.signal(Signal::TERM);
    everybody.signal(Signal::CONT);
    let end = Instant::now() + GRACE;
    while !everybody.gone() {
        if Instant::now() >= end {
            everybody.signal(Signal::KILL);
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    ExitCode::from(exit::FAILED)
}

fn target(line: &str) -> Option<Target> {
    let (kind, id) = line.split_once(' ')?;
    // 1 as a group would be everybody.
    let pid = Pid::from_raw(id.parse().ok().filter(|id: &i32| *id > 1)?)?;
    match kind {
        "group" => Some(Target::Group(pid)),
        "process" => Some(Target::Process(pid)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_processes_are_stopped() {
        for line in ["", "group", "group 0", "group 1", "group -1", "done", "process x", "all 12"] {
            assert_eq!(target(line), None, "{line}");
        }
        let pid = Pid::from_raw(12).unwrap();
        assert_eq!(target("group 12"), Some(Target::Group(pid)));
        assert_eq!(target("process 12"), Some(Target::Process(pid)));
    }
}
