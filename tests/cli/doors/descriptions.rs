//! The OpenAPI descriptions name just the routes that exist, and all that clients in Python and Node.js send and get.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sqlx::ConnectOptions as _;
use support::cli::Ended;
use tempfile::TempDir;

use super::*;

const DOCUMENT: &str = include_str!("../../../cli/openapi/serve.yaml");

/// Checks that a client's tests pass on its own lock service and fenced database, and that its traffic is described.
pub async fn tested(mut client: Command) -> Ended {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let database = crate::database::postgres().database().await;
    let (socket, name) = (database.get_socket().unwrap().display(), database.get_database().unwrap());
    support::cli::ask(database.to_url_lossy().as_str(), "db migrate").is(0);
    let door = serve(&servers, folder.path());
    let recorder = Recorder::before(door.requests);
    client.env("FENCING_URL", format!("http://{}", recorder.address)).env("FENCING_CLIENT_TOKEN", "writer");
    client
        .env("FENCING_SERVE_PID", door.process.pid().to_string())
        .env("FENCING_SERVE_STATUS", door.status.to_string());
    client.env("PGHOST", socket.to_string()).env("PGDATABASE", name);
    let ended = finish(client);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    recorder.is_described();
    ended
}

/// Stands before a lock service, and writes down what passes on each connection.
struct Recorder {
    address: SocketAddr,
    folder: TempDir,
}

impl Recorder {
    fn before(service: SocketAddr) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (address, path) = (listener.local_addr().unwrap(), folder.path().to_owned());
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let service = TcpStream::connect(service).unwrap();
                let record = |what| File::create(path.join(format!("{number}.{what}"))).unwrap();
                pass(client.try_clone().unwrap(), service.try_clone().unwrap(), record("sent"));
                pass(service, client, record("heard"));
            }
        });
        Recorder { address, folder }
    }

    /// Asserts that the document declares all that has passed, which is most of what clients meet.
    #[track_caller]
    fn is_described(&self) {
        let found = self.check(DOCUMENT).printed();
        for what in ["POST 201", "POST 400", "POST 401", "POST 403", "POST 409", "PUT 200", "DELETE 204", "DELETE 404"]
        {
            assert!(found.lines().any(|line| line == what), "{what}: {found}");
        }
        // The check can fail.
        for (undeclared, words) in [
            ("put:", "no such route"),
            ("\"409\":", "the status is not declared"),
            ("Location:", "the header location is not declared"),
            ("bearer:", "no bearer is declared"),
            ("wait_ms:", "'wait_ms' was unexpected"),
            ("valid_for_ms:", "'valid_for_ms' was unexpected"),
        ] {
            let less: Vec<&str> = DOCUMENT.lines().filter(|line| !line.trim().starts_with(undeclared)).collect();
            self.check(&less.join("\n")).says(1, words);
        }
    }

    fn check(&self, document: &str) -> Ended {
        let file = self.folder.path().join("document");
        fs::write(&file, document).unwrap();
        let mut python = Command::new("/usr/bin/python3");
        python.arg("-B").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cli/doors/openapi.py"));
        python.arg(file).arg(self.folder.path());
        finish(python)
    }
}

/// Passes on what comes, until one side has gone: the other one learns of it as it would without a recorder.
fn pass(mut from: TcpStream, mut to: TcpStream, mut record: File) {
    std::thread::spawn(move || {
        let mut bytes = [0; 1 << 14];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            record.write_all(&bytes[..length]).unwrap();
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

/// A lock service that signs, for the client `writer`. There is one without rights, `nobody`.
fn serve(servers: &[RedisServer], folder: &Path) -> Door {
    let [keys, clients] = ["keys", "clients"].map(|name| folder.join(name));
    fs::write(&keys, format!("one={}\n", "1".repeat(64))).unwrap();
    let [writer, nobody] = [("writer", r#"["acquire"]"#), ("nobody", "[]")]
        .map(|(name, may)| super::clients::client(name, r#"["/"]"#, may, ""));
    fs::write(&clients, writer + &nobody).unwrap();
    Door::serve(servers, &format!("--signing-keys {} --clients {}", keys.display(), clients.display()))
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "PATCH"];

/// The methods and the statuses of each path in a description.
pub fn routes(text: &str) -> BTreeMap<String, BTreeMap<String, Vec<u16>>> {
    let mut found: BTreeMap<String, BTreeMap<String, Vec<u16>>> = BTreeMap::new();
    let paths = text.lines().skip_while(|line| *line != "paths:").skip(1);
    let (mut path, mut method) = (String::new(), String::new());
    for line in paths.take_while(|line| line.starts_with(' ')) {
        let indent = line.len() - line.trim_start().len();
        let key = line.trim().split(": ").next().unwrap().trim_end_matches(':');
        match indent {
            2 => path = key.to_owned(),
            4 if METHODS.contains(&&*key.to_uppercase()) => {
                method = key.to_uppercase();
                found.entry(path.clone()).or_default().insert(method.clone(), Vec::new());
            }
            8 if key.starts_with('"') => {
                let status = key.trim_matches('"').parse().unwrap();
                found.get_mut(&path).unwrap().get_mut(&method).unwrap().push(status);
            }
            _ => {}
        }
    }
    found
}

/// Asserts that these are the methods of this path, and that the answer has one of the described statuses.
fn assert_answers(at: SocketAddr, path: &str, sent: &str, methods: &BTreeMap<String, Vec<u16>>) {
    for method in METHODS {
        let answer = ask(at, method, sent, &[], "");
        let statuses = methods.get(method).map_or(&[405][..], Vec::as_slice);
        assert!(statuses.contains(&answer.status), "{method} {path}: {answer:?}");
    }
}

#[test]
fn the_description_of_serve_names_its_routes() {
    let (_servers, door) = served("");
    assert_eq!(door.get("/openapi.yaml").text(), DOCUMENT);
    assert_eq!(door.page("/openapi.yaml").text(), DOCUMENT);
    let mut routes = routes(DOCUMENT);
    // A name may end so, too: other methods are those of a lease.
    let events = routes.remove("/leases/{lease}/events").unwrap();
    assert!(events["GET"].contains(&door.get("/leases/a/events").status));
    let paths: Vec<&str> = routes.keys().map(String::as_str).collect();
    assert_eq!(paths, ["/leases/{lease}", "/openapi.yaml"]);
    for (path, methods) in &routes {
        assert_answers(door.requests, path, &path.replace("{lease}", "a"), methods);
    }
    let lease = door.acquire("b", r#"{"wait_ms": 20000}"#).json();
    for field in ["resource", "token", "sequencer", "lease_id", "ttl_ms", "valid_for_ms"] {
        let described = DOCUMENT.contains(&format!("        {field}: {{"));
        assert!(!lease[field].is_null() && described, "{field}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let other = door.ask(method, "/leases/%ff", &[], "").is(404, "no-lease");
        assert_eq!(other.header("cache-control"), Some("no-store"));
    }
    assert_eq!(door.get("/leases").status, 404);
    assert_eq!(door.get("/").status, 404);
}

#[test]
fn the_description_of_the_proxy_names_the_routes_of_its_status_port() {
    let (_upstream, door) = proxied("");
    let text = include_str!("../../../cli/openapi/proxy.yaml");
    assert_eq!(door.page("/openapi.yaml").text(), text);
    let routes = routes(text);
    assert_eq!(routes.len(), 4, "{routes:?}");
    for (path, methods) in &routes {
        assert_answers(door.status, path, path, methods);
    }
    assert_eq!(door.page("/other").status, 404);
}

fn client(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients").join(language)
}

#[tokio::test]
async fn the_client_in_node_keeps_its_promises() {
    let mut node = Command::new("node");
    node.args(["--test", "test/"]).current_dir(client("node"));
    // Where Debian has `pg`, and where tests/run puts it.
    let own = client("node").join("../../target/clients/node_modules").canonicalize().unwrap_or_default();
    node.env("NODE_PATH", format!("/usr/share/nodejs:{}", own.display()));
    let ended = tested(node).await;
    assert!(ended.stdout.contains("# pass 11\n"), "{ended:?}");
}

#[test]
fn the_package_of_the_client_in_node_packs() {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--dry-run", "--json"]).current_dir(client("node"));
    let packed = finish(support::cli::piped(npm));
    for file in ["index.js", "index.d.ts", "README.md"] {
        assert!(packed.stdout.contains(file), "{packed:?}");
    }
}

#[tokio::test]
async fn the_client_in_python_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("files.db");
    support::cli::ask(&format!("sqlite:{}", database.display()), "db migrate").is(0);
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-B", "-m", "unittest", "discover", "-s", "tests"]).current_dir(client("python"));
    python.env("PYTHONPATH", "src").env("FENCING_TEST_DATABASE", database);
    let ended = tested(python).await;
    assert!(ended.stderr.contains("Ran 14 tests"), "{}", ended.stderr);
}

#[test]
fn the_readme_of_the_client_shows_a_refusal() {
    let ((_servers, door), folder) = (served(""), tempfile::tempdir().unwrap());
    let database = format!("sqlite:{}", folder.path().join("data.db").display());
    assert_eq!(support::cli::ask(&database, "db migrate").code, Some(0));
    let readme = std::fs::read_to_string(client("python").join("README.md")).unwrap();
    let program = readme.split("```python\n").find(|part| part.starts_with("import sqlite3")).unwrap();
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-B", "-c", program.split("```").next().unwrap()]).current_dir(folder.path());
    python.env("PYTHONPATH", client("python").canonicalize().unwrap().join("src"));
    python.env("FENCING_URL", format!("http://{}", door.requests));
    let printed = finish(support::cli::piped(python)).printed();
    assert!(printed.contains("is stale"), "{printed}");
}

#[test]
fn the_package_of_the_client_builds() {
    let folder = tempfile::tempdir().unwrap();
    // What it builds is not left in the sources.
    let copied = Command::new("cp").arg("-r").arg(client("python")).arg(folder.path().join("client")).status().unwrap();
    assert!(copied.success());
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", "from setuptools import build_meta; print(build_meta.build_wheel('.'))"]);
    python.current_dir(folder.path().join("client"));
    let ended = finish(support::cli::piped(python));
    assert!(ended.stdout.contains("fencing_client-0.1.0-py3-none-any.whl"), "{ended:?}");
}
