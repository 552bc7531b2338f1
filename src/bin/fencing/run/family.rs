use std::fs;

use rustix::process::Pid;

/// Returns a process and its descendants, as they are now. Where there is no `/proc`, only the
/// process itself is known.
pub(super) fn of(process: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(Pid, Pid)> =
        ids.filter_map(|id| Some((Pid::from_raw(id)?, parent(id)?))).collect();
    let mut family = vec![process];
    let mut known = 0;
    while let Some(elder) = family.get(known).copied() {
        let children = parents.iter().filter(|(_, parent)| *parent == elder);
        family.extend(children.map(|(child, _)| *child));
        known += 1;
    }
    family
}

fn parent(id: i32) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program comes first, in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    Pid::from_raw(fields.split_whitespace().nth(1)?.parse().ok()?)
}
