//! No job outlives its lease: not in a group or session of its own, not after the death of `fencing run`, and not
//! because nobody reads its messages.

use std::io::{ErrorKind, PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use support::cli::{end, fencing_at, finish, five, line, run, until, urls};
use support::process::{children_of, runs, signal};

/// Ways to leave the process group, and the session.
const WAYS: [&str; 4] =
    ["timeout 1000", "setsid --wait", "setsid --fork", "bash -c 'set -m; \"$@\" & wait' sh"];

/// A script that notes a process id in a file, for each way, and goes on.
fn strays(folder: &Path, script: &str) -> (Vec<PathBuf>, String) {
    let job = folder.join("job");
    std::fs::write(
        &job,
        format!(
            "exec > /dev/null 2>&1\n{script}\necho $$ > $1\nwhile [ -e $1 ]; do sleep 0.05; done"
        ),
    )
    .unwrap();
    let files: Vec<PathBuf> = (0..WAYS.len()).map(|way| folder.join(way.to_string())).collect();
    let parts = WAYS.iter().zip(&files).map(|(way, file)| {
        format!(
            "sh -c '{} sh {} {}; :' &\n",
            way.replace('\'', "'\\''"),
            job.display(),
            file.display()
        )
    });
    (files.clone(), format!("{} wait", parts.collect::<String>()))
}

fn pids(files: &[PathBuf]) -> Vec<u32> {
    files.iter().map(|file| line(file).parse().unwrap()).collect()
}

#[test]
fn a_job_with_groups_and_sessions_of_its_own_ends_with_a_lost_lease() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let (files, script) = strays(folder.path(), "trap '' TERM HUP");
    let child = run(&servers, &["--ttl", "8s"], &script).spawn().unwrap();
    let pids = pids(&files);
    servers.iter().for_each(|server| server.signal("STOP"));
    let ended = end(child);
    assert_eq!(ended.code, Some(76), "{}", ended.stderr);
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

/// A stopped process gets SIGTERM only when it goes on, and then has its grace.
#[test]
fn a_job_that_was_stopped_ends_in_order() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let [ready, ended] = ["ready", "ended"].map(|name| folder.path().join(name));
    let script = format!(
        "trap 'echo > {}; exit' TERM; echo $$ > {}; while :; do sleep 0.05; done",
        ended.display(),
        ready.display()
    );
    let child = run(&servers, &["--ttl", "60s"], &script).spawn().unwrap();
    let job: u32 = line(&ready).parse().unwrap();
    signal(job, "STOP");
    signal(child.id(), "KILL");
    until("the end of the job", || !runs(job));
    assert!(ended.exists());
    end(child);
}

#[test]
fn it_ends_with_a_signal() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let (files, script) = strays(folder.path(), "");
    let child = run(&servers, &[], &script).spawn().unwrap();
    let pids = pids(&files);
    // As systemd does: each process gets it, but only the command ends by it.
    children_of(child.id()).iter().for_each(|guard| signal(*guard, "TERM"));
    signal(child.id(), "TERM");
    assert_eq!(end(child).code, Some(143));
    until("the end of the job", || !pids.iter().any(|pid| runs(*pid)));
}

#[test]
fn it_ends_with_fencing_whatever_it_ignores() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let (files, script) = strays(folder.path(), "trap '' TERM HUP");
    let child = run(&servers, &["--ttl", "8s"], &script).spawn().unwrap();
    let pids = pids(&files);
    signal(child.id(), "KILL");
    until("the end of the job", || !pids.iter().any(|pid| runs(*pid)));
    let ended = end(child);
    assert_eq!(ended.signal, Some(9));
    assert!(ended.stderr.contains("`fencing run` was killed: the command is stopped"), "{ended:?}");
    // And the lock ends with its TTL.
    assert_eq!(finish(run(&servers, &["--wait", "1m"], "exit 0")).code, Some(0));
}

#[test]
fn it_ends_with_its_guard() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let (files, script) = strays(folder.path(), "");
    let child = run(&servers, &[], &script).spawn().unwrap();
    let pids = pids(&files);
    let guard = children_of(child.id());
    guard.iter().for_each(|guard| signal(*guard, "KILL"));
    end(child).says(71, "the guard was killed");
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

/// A pipe that takes no more bytes.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    ioctl_fionbio(&writer, true).unwrap();
    for size in [4096, 1] {
        let full = loop {
            if let Err(error) = writer.write(&vec![0; size]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }
    ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

#[test]
fn a_reader_of_stderr_that_stands_still_keeps_no_job_alive() {
    for kill in [true, false] {
        let (servers, folder) = (five(), tempfile::tempdir().unwrap());
        let (reader, writer) = full_pipe();
        let (files, script) = strays(folder.path(), "");
        let mut command = run(&servers, &["--ttl", "8s"], &script);
        let child = command.stderr(writer).spawn().unwrap();
        drop(command);
        let pids = pids(&files);
        match kill {
            true => signal(child.id(), "KILL"),
            false => servers.iter().for_each(|server| server.signal("STOP")),
        }
        until("the end of the job", || !pids.iter().any(|pid| runs(*pid)));
        assert_eq!(end(child).code, (!kill).then_some(76));
        drop(reader);
    }
}

#[test]
fn sigterm_comes_while_the_lease_lasts() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let [ready, got, done, lock] =
        ["ready", "got", "done", "lock"].map(|name| folder.path().join(name));
    let script = format!(
        "exec 9> {}; flock -n 9; trap 'echo > {}; until [ -e {} ]; do sleep 0.05; done; exit 0' TERM; \
         echo > {}; while :; do sleep 0.05; done",
        lock.display(),
        got.display(),
        done.display(),
        ready.display()
    );
    let first = run(&servers, &["--ttl", "4s"], &script).spawn().unwrap();
    line(&ready);
    servers.iter().for_each(|server| server.signal("STOP"));
    line(&got);
    servers.iter().for_each(|server| server.signal("CONT"));
    // The lock is not free yet, or the first job is gone.
    let next = format!("flock -n {} echo alone", lock.display());
    let second = run(&servers, &["--wait", "20s"], &next).spawn().unwrap();
    let ended = end(second);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "alone\n"), "{}", ended.stderr);
    std::fs::write(&done, "").unwrap();
    assert_eq!(end(first).code, Some(76));
}

#[test]
fn a_parent_that_ignores_sigchld_changes_no_status() {
    let servers = five();
    let inner = run(&servers, &[], "sh -c 'exit 3'; exit $(($? + 4))");
    let mut command = Command::new("env");
    // In place of what makes it heed all signals.
    command.arg("--ignore-signal=CHLD").args(inner.get_args().skip(2));
    command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = finish(command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(7), ""));
}

/// How often a job's `fencing run` is killed: `FENCING_KILLS`.
fn kills() -> usize {
    std::env::var("FENCING_KILLS").ok().map_or(12, |text| text.parse().expect("a number"))
}

/// One job after another on one resource, each killed with its `fencing run` at a random moment.
fn lane(urls: &str, folder: &Path, lane: usize, rounds: usize) {
    let (reader, writer) = full_pipe();
    let [lock, log] = ["lock", "log"].map(|name| folder.join(format!("{lane}-{name}")));
    let job = format!(
        "exec 9>> {}; flock -n 9 && echo alone >> {log} || echo two >> {log}; \
         {{}} sh -c 'while [ -e {log} ]; do sleep 0.05; done' & while :; do sleep 0.05; done",
        lock.display(),
        log = log.display()
    );
    for round in 0..rounds {
        let mut command = fencing_at(urls);
        let ways = ["timeout 1000", "setsid --fork", "", "trap '' TERM;"];
        command.args(["run", "--resource", &format!("lane/{lane}"), "--ttl", "6s"]);
        command.args([
            "--node-budget",
            "1s",
            "--",
            "sh",
            "-c",
            &job.replace("{}", ways[round % 4]),
        ]);
        command.stderr(writer.try_clone().unwrap());
        let mut child: Child = command.spawn().unwrap();
        drop(command);
        let started = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
        let before = started();
        match fastrand::bool() {
            true => until("the guard's start", || !children_of(child.id()).is_empty()),
            false => until("the job's start", || started() > before),
        }
        std::thread::sleep(Duration::from_millis(fastrand::u64(..40)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    drop(reader);
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(!log.contains("two"), "{log}");
    println!("lane {lane}: {} of {rounds} jobs had started", log.lines().count());
}

#[test]
fn two_jobs_never_run_at_one_time() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let (urls, kills) = (urls(&servers), kills());
    let lanes = kills.div_ceil(3).min(16);
    std::thread::scope(|scope| {
        for number in 0..lanes {
            let (urls, folder) = (&urls, folder.path());
            scope.spawn(move || lane(urls, folder, number, kills.div_ceil(lanes)));
        }
    });
}
