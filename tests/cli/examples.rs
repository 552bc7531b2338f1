//! The small examples do what their first lines say.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use support::cli::{Ended, Running, binary, end, example, fencing, finish, five, heeding, urls};
use support::http::ask;
use tempfile::tempdir;

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

fn run(name: &str, argument: &str) -> Command {
    let mut command = example(name);
    command.arg(argument);
    command
}

/// Somebody who holds a lease in this file until the function that is returned is called.
fn held(resource: &str, file: &Path) -> impl FnOnce() {
    let url = format!("sqlite:{}", file.display());
    let mut command = fencing(&url, &format!("run --resource {resource} -- sh -c"));
    command.arg("echo held; sleep 600");
    let mut holder = Running::start(command);
    holder.until("held");
    move || {
        holder.signal("TERM");
        assert_eq!(holder.ended().code, Some(143));
    }
}

#[test]
fn a_cron_job_works_once_a_day_on_one_machine() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("reports.db");
    let job = || finish(run("cron_job", file.to_str().unwrap()));
    assert_eq!(job().printed(), "written with token 1\n");
    // Unless midnight has just passed.
    assert!(["written before\n", "written with token 2\n"].contains(&&*job().stdout));
    // Another machine is at work.
    let let_go = held("nightly-report", &file);
    job().prints(75, "");
    let_go();
}

#[test]
fn a_worker_releases_its_lease_when_it_is_told_to_stop() {
    let servers = five();
    let mut first = Running::start(run("worker", &urls(&servers)));
    let token: u64 = first.until("step 1 with token ").parse().unwrap();
    first.until("step 2");
    first.signal("TERM");
    first.until("stopped");
    assert_eq!(first.ended().code, Some(0));
    // The lease was released: the next one waits for less than the TTL.
    let next = "run --wait 5s --node-budget 1s --resource jobs/import -- sh -c";
    let mut next = fencing(&servers, next);
    next.arg("echo $FENCING_TOKEN");
    assert!(finish(next).number() > token);
}

#[test]
fn a_worker_that_slept_is_followed_and_learns_of_it() {
    let servers = five();
    let mut first = Running::start(run("worker", &urls(&servers)));
    let token: u64 = first.until("step 1 with token ").parse().unwrap();
    let mut second = Running::start(run("worker", &urls(&servers)));
    first.signal("STOP");
    let larger: u64 = second.until("step 1 with token ").parse().unwrap();
    assert!(larger > token, "{larger} after {token}");
    first.signal("CONT");
    first.until("lease lost, jobs/import token ");
}

#[test]
fn a_service_refuses_stale_writes() {
    let mut service = Running::start(run("axum_service", "127.0.0.1:0"));
    let address = service.until("listening on http://").parse().unwrap();
    let send = |method: &str, token: &str, body: &str| {
        let answer = ask(address, method, "/files/a", &[("Fencing-Token", token)], body);
        (answer.status, answer.text().to_owned())
    };
    assert_eq!(send("PUT", "34", "two").0, 204);
    assert_eq!(send("PUT", "33", "one").0, 412);
    assert_eq!(ask(address, "PUT", "/files/a", &[], "none").status, 428);
    assert_eq!(send("GET", "34", ""), (200, "two".to_owned()));
}

#[test]
fn a_grpc_service_refuses_stale_writes() {
    let mut command = run("tonic_service", "serve");
    command.arg("127.0.0.1:0");
    let mut service = Running::start(command);
    let url = format!("http://{}", service.until("listening on http://"));
    let call = |token: &str| {
        let mut command = run("tonic_service", &url);
        command.args([token, "two", "lines"]);
        Running::start(command)
    };
    assert_eq!(call("34").until("token 34 "), "wrote two lines");
    assert_eq!(call("33").until("token 33 "), "of ledger is stale, high water 34");
}

#[test]
fn clients_that_try_again_count_to_eight() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("counter.db");
    let client = || run("client_with_retries", file.to_str().unwrap());
    assert_eq!(finish(client()).printed(), "1\n");
    let running: Vec<Child> = (0..7).map(|_| client().spawn().unwrap()).collect();
    let mut counted: Vec<u64> = running.into_iter().map(|child| end(child).stdout.trim().parse().unwrap()).collect();
    counted.sort_unstable();
    assert_eq!(counted, [2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_script_makes_a_backup_or_leaves_it_to_another() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    std::fs::write(from.path().join("file"), "text").unwrap();
    let locks = to.path().join("locks.db");
    let backup = || {
        let mut command = heeding(script("backup.sh").to_str().unwrap());
        command.arg(from.path()).arg(to.path());
        finish(on_path(command, &locks))
    };
    let let_go = held("backup", &locks);
    backup().prints(0, "another machine makes the backup\n");
    let_go();
    assert_eq!(backup().printed(), "backup-2.tar\n");
    assert!(to.path().join("backup-2.tar").metadata().unwrap().len() > 0);
    // The clock of a machine that is late: the backup is made already.
    backup().prints(0, "another machine makes the backup\n");
}

#[test]
fn python_writes_with_its_token_and_is_refused_with_an_older_one() {
    let folder = tempdir().unwrap();
    let store = folder.path().join("store.db");
    let write = |command: Command, body: &str| -> Ended {
        let mut command = on_path(command, &store);
        command.arg(script("write_file.py")).arg(&store).arg(body);
        finish(command)
    };
    for (token, body) in [(1, "new"), (2, "newer")] {
        let holder = fencing("", "run --resource files/a -- python3");
        let printed = write(holder, body).printed();
        assert_eq!(printed, format!("files/a written with token {token}\n"));
    }
    let mut asleep = heeding("python3");
    asleep.env("FENCING_RESOURCE", "files/a").env("FENCING_TOKEN", "1");
    let refusal = "fencing: token 1 is stale, high water 2, resource files/a";
    write(asleep, "old").says(1, refusal);
}

#[test]
fn an_example_says_in_words_why_it_failed() {
    for name in ["axum_service", "client_with_retries", "cron_job", "tonic_service", "worker"] {
        finish(example(name)).says(1, &format!("Error: usage: {name} "));
    }
}
