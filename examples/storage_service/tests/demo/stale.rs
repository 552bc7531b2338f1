//! Kleppmann's client: a real process, stopped past its TTL, with a real lock, a real
//! database, and a write that comes late.

use sqlx::ConnectOptions;

use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

use super::service::Service;
use support::cli::{end, fencing, five, line, urls};
use support::process::{children_of, signal};

/// Long enough that the first client is not stopped in the middle of a renewal: a process that sleeps
/// in mid-transaction keeps all others from writing.
const TTL: &str = "12s";

/// Writes its token and process id down, waits for the file `go`, and puts its name into the storage under its token.
const WRITER: &str = r#"
echo "$FENCING_TOKEN $$" > $FOLDER/$NAME
while ! [ -e $FOLDER/$NAME.go ]; do sleep 0.01; done
exec 3<>/dev/tcp/${ADDRESS%:*}/${ADDRESS#*:}
printf 'PUT /files/report HTTP/1.1\r\nHost: x\r\nConnection: close\r\nFencing-Token: %s\r\nContent-Length: ${#NAME}\r\n\r\n%s' "$FENCING_TOKEN" "$NAME" >&3
head -n 1 <&3 > $FOLDER/$NAME.answer
"#;

/// `locks` says to clients where the locks are. Returns what the old writer was told, and the file.
fn scenario(service: &[&str], locks: [&str; 2]) -> (String, String) {
    let service = Service::start(service);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let client = |name: &str| {
        let mut command = fencing("", "run");
        command.args(locks).args(["--resource", "files/report", "--ttl", TTL]);
        let script = WRITER.replace("${#NAME}", &name.len().to_string());
        command.args(["--node-budget", "1s", "--", "bash", "-c", &script]);
        command.env("FOLDER", folder.path()).env("NAME", name).env("ADDRESS", service.address.to_string());
        command.spawn().unwrap()
    };
    let words = |name: &str| {
        let line = line(&path(name));
        let (token, pid) = line.split_once(' ').unwrap();
        (token.parse::<u64>().unwrap(), pid.parse::<u32>().unwrap())
    };

    let first = client("first");
    let (old, writer) = words("first");
    // As on a machine that stands still: the guard would end the writer with its lease.
    let fencing: Vec<u32> = children_of(first.id()).into_iter().chain([first.id()]).collect();
    fencing.iter().chain([&writer]).for_each(|process| signal(*process, "STOP"));

    // The lease runs out, as nobody renews it, and somebody else comes and writes.
    let second = client("second");
    let (new, _) = words("second");
    assert!(new > old);
    std::fs::write(path("second.go"), "").unwrap();
    assert!(line(&path("second.answer")).contains("204"));
    assert_eq!(end(second).code, Some(0));

    // The old writer wakes up in the middle of its work.
    std::fs::write(path("first.go"), "").unwrap();
    signal(writer, "CONT");
    let answer = line(&path("first.answer"));
    fencing.iter().for_each(|process| signal(*process, "CONT"));
    let first = end(first);
    assert_eq!(first.code, Some(76), "{first:?}");
    assert!(first.stderr.contains("lease lost"), "{first:?}");
    (answer, service.file())
}

fn refused_by_the_fence(service: &[&str], locks: [&str; 2]) {
    let (answer, file) = scenario(service, locks);
    assert!(answer.contains("412") && file == "second", "{answer}: {file}");
}

/// Without the fence it goes over the newer one.
fn accepted_without_it(service: &[&str], locks: [&str; 2]) {
    let (answer, file) = scenario(&[service, &["--unguarded"]].concat(), locks);
    assert!(answer.contains("204") && file == "first", "{answer}: {file}");
}

#[tokio::test]
async fn the_write_of_a_client_that_was_stopped_past_its_lease_is_refused() {
    let (nodes, postgres) = (five(), PostgresServer::start());
    let database = postgres.database().await.to_url_lossy().to_string();
    let urls = urls(&nodes);
    let service = ["--redis", &urls, "--database", &database];
    refused_by_the_fence(&service, ["--redis", &urls]);
    accepted_without_it(&service, ["--redis", &urls]);
}

/// The same, at one time in two databases.
fn in_one_database([guarded, unguarded]: [String; 2]) {
    fn service(url: &str) -> [&str; 4] {
        ["--lock", "database", "--database", url]
    }
    std::thread::scope(|scope| {
        scope.spawn(|| refused_by_the_fence(&service(&guarded), ["--database", &guarded]));
        accepted_without_it(&service(&unguarded), ["--database", &unguarded]);
    });
}

#[tokio::test]
async fn with_lock_and_files_in_one_postgresql() {
    let postgres = PostgresServer::start();
    let databases = [postgres.database().await, postgres.database().await];
    in_one_database(databases.map(|database| database.to_url_lossy().to_string()));
}

#[tokio::test]
async fn with_lock_and_files_in_one_mariadb() {
    let mariadb = MariadbServer::start();
    let databases = [mariadb.database().await, mariadb.database().await];
    in_one_database(databases.map(|database| database.to_url_lossy().to_string()));
}

#[test]
fn with_lock_and_files_in_one_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite:{}/{name}.db", folder.path().display());
    in_one_database(["guarded", "unguarded"].map(url));
}
