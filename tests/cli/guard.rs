//! No job outlives its lease: not in a group or session of its own, not after the death of `fencing run`, and not
//! because nobody reads its messages. A lost lease stops the command: Kleppmann's scenario, in which a client is paused
//! past its TTL, another comes, the first wakes.

use std::io::{ErrorKind, PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use support::cli::*;
use tempfile::TempDir;

/// Ways to leave the process group, and the session.
const WAYS: [&str; 4] = ["timeout 1000", "setsid --wait", "setsid --fork", "bash -c 'set -m; \"$@\" & wait' sh"];

/// A job with a part for each way.
struct Strays {
    servers: Vec<RedisServer>,
    _folder: TempDir,
    child: Child,
    parts: Vec<u32>,
}

impl Strays {
    /// Each part does this first, and goes on.
    fn start(first: &str, stderr: impl Into<Stdio>) -> Strays {
        let (servers, folder) = (five(), tempfile::tempdir().unwrap());
        let job = folder.path().join("job");
        let rest = "echo $$ > $1\nwhile [ -e $1 ]; do sleep 0.05; done";
        std::fs::write(&job, format!("exec > /dev/null 2>&1\n{first}\n{rest}")).unwrap();
        let files = [0, 1, 2, 3].map(|way| folder.path().join(way.to_string()));
        let part = |(way, file): (&str, &PathBuf)| {
            let (way, job, file) = (way.replace('\'', "'\\''"), job.display(), file.display());
            format!("sh -c '{way} sh {job} {file}; :' &\n")
        };
        let script: String = WAYS.into_iter().zip(&files).map(part).collect();
        let mut command = run(&servers, "--ttl 20s", &format!("echo $FENCING_TOKEN\n{script} wait"));
        let child = command.stderr(stderr).spawn().unwrap();
        let parts = files.iter().map(|file| line(file).parse().unwrap()).collect();
        Strays { servers, _folder: folder, child, parts }
    }

    fn lose_the_lease(&self) {
        self.servers.iter().for_each(|server| server.signal("STOP"));
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn signal_guard(&self, name: &str) {
        children_of(self.child.id()).iter().for_each(|guard| signal(*guard, name));
    }

    fn run(&self) -> bool {
        self.parts.iter().any(|part| runs(*part))
    }

    fn have_ended(&self) {
        until("the end of the job", || !self.run());
    }
}

#[test]
fn a_job_with_groups_and_sessions_of_its_own_ends_with_a_lost_lease() {
    let mut job = Strays::start("trap '' TERM HUP", Stdio::piped());
    job.lose_the_lease();
    assert_eq!(job.child.wait().unwrap().code(), Some(76));
    assert!(!job.run());
    let ended = end(job.child);
    let words = format!("lease lost, invoice/42 token {}: it was not renewed in time (", ended.stdout.trim());
    // It says which nodes are to blame.
    assert!(ended.says(76, &words).stderr.contains("(the last renewal failed: "));
}

/// A stopped process gets SIGTERM only when it goes on, and then has its grace.
#[test]
fn a_job_that_was_stopped_ends_in_order() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let ended = folder.path().join("ended");
    let trap = format!("trap 'echo > {}; exit' TERM", ended.display());
    let job = Job::start(&servers, "--ttl 60s", &trap, "$$");
    let [command] = job.processes();
    signal(command, "STOP");
    job.signal("KILL");
    until("the end of the job", || !runs(command));
    assert!(ended.exists());
    job.ended();
}

#[test]
fn it_ends_with_a_signal() {
    let mut job = Strays::start("", Stdio::null());
    // As systemd does: each process gets it, but only the command ends by it.
    job.signal_guard("TERM");
    job.signal("TERM");
    assert_eq!(job.child.wait().unwrap().code(), Some(143));
    job.have_ended();
}

#[test]
fn it_ends_with_fencing_whatever_it_ignores() {
    let job = Strays::start("trap '' TERM HUP", Stdio::piped());
    job.signal("KILL");
    job.have_ended();
    let ended = end(job.child);
    assert_eq!(ended.signal, Some(9));
    assert!(ended.stderr.contains("`fencing run` was killed: the command is stopped"), "{ended:?}");
    // And the lock ends with its TTL.
    finish(run(&job.servers, "--wait 1m", "exit 0")).is(0);
}

#[test]
fn it_ends_with_its_guard() {
    let mut job = Strays::start("", Stdio::piped());
    job.signal_guard("KILL");
    assert_eq!(job.child.wait().unwrap().code(), Some(71));
    assert!(!job.run());
    end(job.child).says(71, "the guard was killed");
}

pub fn full_pipe() -> (PipeReader, PipeWriter) {
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
        let (_reader, writer) = full_pipe();
        let mut job = Strays::start("", writer);
        match kill {
            true => job.signal("KILL"),
            false => job.lose_the_lease(),
        }
        job.have_ended();
        assert_eq!(job.child.wait().unwrap().code(), (!kill).then_some(76));
    }
}

#[test]
fn sigterm_comes_while_the_lease_lasts() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let [got, done, lock] = ["got", "done", "lock"].map(|name| folder.path().join(name));
    let first = format!(
        "exec 9> {}; flock -n 9; trap 'echo > {}; until [ -e {} ]; do sleep 0.05; done; exit 0' TERM",
        lock.display(),
        got.display(),
        done.display()
    );
    let first = Job::start(&servers, "--ttl 20s", &first, "");
    servers.iter().for_each(|server| server.signal("STOP"));
    line(&got);
    servers.iter().for_each(|server| server.signal("CONT"));
    // The lock is not free yet, or the first job is gone.
    let next = format!("flock -n {} echo alone", lock.display());
    finish(run(&servers, "--wait 60s", &next)).prints(0, "alone\n");
    std::fs::write(&done, "").unwrap();
    assert_eq!(first.ended().code, Some(76));
}

/// How often a job's `fencing run` is killed: `FENCING_KILLS`.
fn kills() -> usize {
    std::env::var("FENCING_KILLS").ok().map_or(12, |text| text.parse().expect("a number"))
}

/// One job after another on one resource, each killed with its `fencing run` at a random moment.
fn lane(urls: &str, folder: &Path, lane: usize, rounds: usize) {
    let (_reader, writer) = full_pipe();
    let [lock, log] = ["lock", "log"].map(|name| folder.join(format!("{lane}-{name}")));
    let job = format!(
        "exec 9>> {}; flock -n 9 && echo alone >> {log} || echo two >> {log}; \
         {{}} sh -c 'while [ -e {log} ]; do sleep 0.05; done' & while :; do sleep 0.05; done",
        lock.display(),
        log = log.display()
    );
    let ways = ["timeout 1000", "setsid --fork", "", "trap '' TERM;"];
    let options = format!("run --resource lane/{lane} --ttl 6s --node-budget 1s -- sh -c");
    for way in ways.into_iter().cycle().take(rounds) {
        let mut command = fencing(urls, &options);
        command.arg(job.replace("{}", way)).stderr(writer.try_clone().unwrap());
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

#[test]
fn a_command_that_ends_while_fencing_is_paused_past_its_ttl_is_no_success() {
    let servers = five();
    let job = Job::start(&servers, "--ttl 12s", "", "$$");
    let [command] = job.processes();
    job.signal("STOP");
    std::thread::sleep(Duration::from_secs(13));
    job.let_go();
    until("the end of the command", || !runs(command));
    job.signal("CONT");
    job.ended().says(76, "lease lost, invoice/42 token ");
}

#[test]
fn a_client_that_slept_past_its_ttl_sees_its_lease_as_lost() {
    let servers = five();
    // Its command has a child, to show that the whole group is told.
    let first = "sh -c 'sleep 60; :' & trap 'echo told; exit 0' TERM";
    let job = Job::start(&servers, "--ttl 20s", first, "$$ $!");
    let [command, grandchild] = job.processes();
    job.signal("STOP");

    // The second waits for the end of the TTL, and gets a larger token.
    let second = finish(run(&servers, "--wait 60s", "echo $FENCING_TOKEN"));
    assert!(second.number() > job.token);
    until("the end of the command", || !runs(command));

    job.signal("CONT");
    let words = format!("lease lost, invoice/42 token {}: ", job.token);
    job.ended().prints(76, "told\n").says(76, &words);
    until("the end of the group", || !runs(grandchild));
}

#[test]
fn the_guard_may_sleep_as_well() {
    let servers = five();
    let job = Job::start(&servers, "--ttl 10s", "", "$$");
    let [command] = job.processes();
    // The guard first: it would end the command with the lease.
    let mut processes = children_of(job.pid());
    processes.push(job.pid());
    processes.iter().chain([&command]).for_each(|process| signal(*process, "STOP"));
    let second = finish(run(&servers, "--wait 60s", "echo $FENCING_TOKEN"));
    assert!(second.number() > job.token);
    // The first's command is still there: if it woke up now, only the storage could refuse it.
    assert!(runs(command));
    processes.iter().for_each(|process| signal(*process, "CONT"));
    assert_eq!(job.ended().code, Some(76));
    assert!(!runs(command));
}
