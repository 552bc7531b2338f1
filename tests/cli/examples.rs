//! The small examples do what their first lines say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use support::cli::{Ended, PATIENCE, binary, end, example, finish, five, heeding, urls};
use support::process;
use tempfile::{TempDir, tempdir};

fn script(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "{name} can be executed");
    path
}

/// `fencing` is found on the path, and has its leases in this file.
fn on_path(mut command: Command, locks: &Path) -> Command {
    let folder = binary("fencing").parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env_remove("FENCING_REDIS");
    command.env("FENCING_DATABASE", format!("sqlite:{}", locks.display()));
    command
}

/// `fencing`, with these arguments and leases nowhere but where they say.
fn fencing(arguments: &[&str]) -> Command {
    let mut command = heeding("fencing");
    command.env_remove("FENCING_REDIS").env_remove("FENCING_DATABASE").args(arguments);
    piped(command)
}

fn piped(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A program that goes on; killed at the end of the test.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            output.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Running { child, lines }
    }

    /// Reads on until a line begins so, and returns its rest.
    fn until(&mut self, start: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|error| panic!("no line begins with {start}: {error}"));
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }

    fn signal(&self, name: &str) {
        process::signal(self.child.id(), name);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder() -> TempDir {
    tempdir().unwrap()
}

fn assert_ends(ended: &Ended, output: &str) {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.stdout, output);
}

#[test]
fn a_cron_job_works_once_a_day_on_one_machine() {
    let folder = folder();
    let file = folder.path().join("reports.db");
    let job = || {
        let mut command = example("cron_job");
        command.arg(&file);
        command
    };
    assert_ends(&finish(job()), "written with token 1\n");
    // Unless midnight has just passed.
    assert!(["written before\n", "written with token 2\n"].contains(&&*finish(job()).stdout));
    // Another machine is at work.
    let mut other = fencing(&["run", "--resource", "nightly-report", "--database"]);
    other.arg(format!("sqlite:{}", file.display())).args(["--", "sh", "-c", "echo held; sleep 60"]);
    let mut other = Running::start(other);
    other.until("held");
    let ended = finish(job());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(75), ""), "{ended:?}");
    other.signal("TERM");
    assert!(!other.child.wait().unwrap().success());
}

#[test]
fn a_worker_releases_its_lease_when_it_is_told_to_stop() {
    let servers = five();
    let worker = || {
        let mut command = example("worker");
        command.arg(urls(&servers));
        command
    };
    let mut first = Running::start(worker());
    let token: u64 = first.until("step 1 with token ").parse().unwrap();
    first.until("step 2");
    first.signal("TERM");
    first.until("stopped");
    assert_eq!(first.child.wait().unwrap().code(), Some(0));
    // The lease was released: the next one waits for less than the TTL.
    let mut next = fencing(&["run", "--wait", "5s", "--resource", "jobs/import", "--redis"]);
    next.arg(urls(&servers)).args(["--", "sh", "-c", "echo $FENCING_TOKEN"]);
    let ended = finish(next);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.trim().parse::<u64>().unwrap() > token);
}

#[test]
fn a_worker_that_slept_is_followed_and_learns_of_it() {
    let servers = five();
    let worker = || {
        let mut command = example("worker");
        command.arg(urls(&servers));
        command
    };
    let mut first = Running::start(worker());
    let token: u64 = first.until("step 1 with token ").parse().unwrap();
    let mut second = Running::start(worker());
    first.signal("STOP");
    let larger: u64 = second.until("step 1 with token ").parse().unwrap();
    assert!(larger > token, "{larger} after {token}");
    first.signal("CONT");
    first.until("lease lost, jobs/import token ");
}

/// Sends one request, and returns the head and the body of the answer.
fn send(address: &str, method: &str, token: Option<u64>, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let token = token.map_or(String::new(), |token| format!("Fencing-Token: {token}\r\n"));
    let length = body.len();
    write!(
        stream,
        "{method} /files/a HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{token}Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn a_service_refuses_stale_writes() {
    let mut command = example("axum_service");
    command.arg("127.0.0.1:0");
    let mut service = Running::start(command);
    let address = service.until("listening on http://");
    assert_eq!(send(&address, "PUT", Some(34), "two").0, "HTTP/1.1 204 No Content");
    assert_eq!(send(&address, "PUT", Some(33), "one").0, "HTTP/1.1 412 Precondition Failed");
    assert!(send(&address, "PUT", None, "none").0.starts_with("HTTP/1.1 428 "));
    let (status, body) = send(&address, "GET", Some(34), "");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "two"));
}

#[test]
fn a_grpc_service_refuses_stale_writes() {
    let mut command = example("tonic_service");
    command.args(["serve", "127.0.0.1:0"]);
    let mut service = Running::start(command);
    let url = format!("http://{}", service.until("listening on http://"));
    let call = |token: &str| {
        let mut command = piped(example("tonic_service"));
        command.args([&url, token, "two", "lines"]);
        Running::start(command)
    };
    assert_eq!(call("34").until("token 34 "), "wrote two lines");
    assert_eq!(call("33").until("token 33 "), "of ledger is stale, high water 34");
}

#[test]
fn clients_that_try_again_count_to_eight() {
    let folder = folder();
    let client = || {
        let mut command = example("client_with_retries");
        command.arg(folder.path().join("counter.db"));
        command
    };
    assert_ends(&finish(client()), "1\n");
    let running: Vec<Child> = (0..7).map(|_| client().spawn().unwrap()).collect();
    let mut counted: Vec<u64> = running
        .into_iter()
        .map(|child| {
            let ended = end(child);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            ended.stdout.trim().parse().unwrap()
        })
        .collect();
    counted.sort_unstable();
    assert_eq!(counted, [2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_script_makes_a_backup_or_leaves_it_to_another() {
    let (from, to) = (folder(), folder());
    std::fs::write(from.path().join("file"), "text").unwrap();
    let locks = to.path().join("locks.db");
    let backup = || {
        let mut command = piped(heeding(script("backup.sh").to_str().unwrap()));
        command.arg(from.path()).arg(to.path());
        on_path(command, &locks)
    };
    let other = fencing(&["run", "--resource", "backup", "--", "sh", "-c", "echo held; sleep 60"]);
    let mut other = Running::start(on_path(other, &locks));
    other.until("held");
    let leaves_it = |ended: &Ended| {
        let told = (ended.code, ended.stdout.as_str());
        assert_eq!(told, (Some(0), "another machine makes the backup\n"), "{ended:?}");
    };
    leaves_it(&finish(backup()));
    other.signal("TERM");
    assert!(!other.child.wait().unwrap().success());
    assert_ends(&finish(backup()), "backup-2.tar\n");
    assert!(to.path().join("backup-2.tar").metadata().unwrap().len() > 0);
    // The clock of a machine that is late: the backup is made already.
    leaves_it(&finish(backup()));
}

#[test]
fn python_writes_with_its_token_and_is_refused_with_an_older_one() {
    let folder = folder();
    let store = folder.path().join("store.db");
    let write = |command: Command, body: &str| {
        let mut command = on_path(command, &store);
        command.arg(script("write_file.py")).arg(&store).arg(body);
        finish(command)
    };
    let holder = || fencing(&["run", "--resource", "files/a", "--", "python3"]);
    assert_ends(&write(holder(), "new"), "files/a written with token 1\n");
    assert_ends(&write(holder(), "newer"), "files/a written with token 2\n");
    let mut asleep = piped(heeding("python3"));
    asleep.env("FENCING_RESOURCE", "files/a").env("FENCING_TOKEN", "1");
    let ended = write(asleep, "old");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let refusal = "fencing: token 1 is stale, high water 2, resource files/a";
    assert!(ended.stderr.contains(refusal), "{}", ended.stderr);
}

#[test]
fn an_example_says_in_words_why_it_failed() {
    for name in ["axum_service", "client_with_retries", "cron_job", "tonic_service", "worker"] {
        let ended = finish(example(name));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let usage = format!("Error: usage: {name} ");
        assert!(ended.stderr.starts_with(&usage), "{}", ended.stderr);
    }
}
