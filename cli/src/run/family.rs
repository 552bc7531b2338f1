use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

/// Makes descendants that lose their parent children of this process, so that [`all`] finds them: on Linux only.
pub(super) fn adopt() -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Returns all descendants of this process, as they are now, each with its state; none where there is no `/proc`.
pub(super) fn all() -> Vec<(Pid, char)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: Vec<(Pid, char, Pid)> = ids.filter_map(read).collect();
    let mut family = Vec::new();
    let (mut known, mut elder) = (0, Some(getpid()));
    while let Some(parent) = elder {
        let children = processes.iter().filter(|(.., of)| *of == parent);
        family.extend(children.map(|(child, state, _)| (*child, *state)));
        elder = family.get(known).map(|(next, _)| *next);
        known += 1;
    }
    family
}

fn read(id: i32) -> Option<(Pid, char, Pid)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program comes first, in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((Pid::from_raw(id)?, state, Pid::from_raw(fields.next()?.parse().ok()?)?))
}

pub(super) fn signal(signal: Signal) -> bool {
    let family = all();
    for (process, _) in &family {
        // It may have ended since.
        let _ = kill_process(*process, signal);
    }
    !family.is_empty()
}

/// Reaps the children that have ended, and returns whether any other is left.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((child, status))) => ended(child, status),
            Ok(None) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
