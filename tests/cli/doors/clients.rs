//! Who may ask `fencing serve` for what.

use std::fs;
use std::path::PathBuf;

use support::clients::output;
use tempfile::TempDir;

use super::*;

/// A lock service with a file of clients. The token of a client is its name.
struct Guarded {
    _folder: TempDir,
    _servers: Vec<RedisServer>,
    file: PathBuf,
    door: Door,
}

pub fn client(name: &str, resources: &str, may: &str, bounds: &str) -> String {
    let hash = output(Command::new("sh").args(["-c", &format!("printf %s {name} | sha256sum")])).unwrap();
    let hash = hash.split_whitespace().next().unwrap().to_owned();
    format!("[{name}]\ntoken_sha256 = [\"{hash}\"]\nresources = {resources}\nmay = {may}\n{bounds}\n")
}

impl Guarded {
    fn start(clients: &[String]) -> Guarded {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clients.toml");
        fs::write(&file, clients.concat()).unwrap();
        let (servers, door) = served(&format!("--clients {}", file.display()));
        Guarded { _folder: folder, _servers: servers, file, door }
    }

    fn ask(&self, name: &str, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {name}");
        self.door.ask(method, path, &[("Authorization", &bearer)], body)
    }

    fn acquire(&self, name: &str, resource: &str) -> Answer {
        self.ask(name, "POST", &format!("/leases/{resource}"), r#"{"ttl_ms": 60000}"#)
    }
}

#[test]
fn a_client_has_the_rights_of_its_line_and_no_others() {
    let it = Guarded::start(&[
        client("writer", r#"["files/", "report"]"#, r#"["acquire"]"#, ""),
        client("other", r#"["files/"]"#, r#"["acquire"]"#, ""),
        client("operator", r#"["files/"]"#, r#"["release"]"#, ""),
        client("reader", r#"["/"]"#, r#"["read"]"#, ""),
        client("nobody", r#"["/"]"#, "[]", ""),
    ]);
    let file = it.acquire("writer", "files/a");
    assert_eq!(file.status, 201, "{file:?}");
    let report = it.acquire("writer", "report");
    assert_eq!(report.status, 201, "{report:?}");
    for (name, resource) in [("writer", "reports"), ("writer", "files"), ("other", "report"), ("reader", "files/b")] {
        assert_eq!(it.acquire(name, resource).status, 403, "{name} {resource}");
    }
    let of = |name: &str, method: &str, lease: &Answer| it.ask(name, method, &lease.path(), "").status;
    assert_eq!(of("writer", "PUT", &file), 200);
    assert_eq!(of("reader", "GET", &file), 200);
    for (name, methods) in [("other", "PUT GET DELETE"), ("operator", "PUT GET"), ("reader", "PUT DELETE")] {
        for method in methods.split(' ') {
            assert_eq!(of(name, method, &file), 403, "{name} {method}");
        }
    }
    // Of a resource that is not the operator's.
    assert_eq!(of("operator", "DELETE", &report), 403);
    assert_eq!(of("operator", "DELETE", &file), 204);
    assert_eq!(of("writer", "PUT", &file), 404);
    assert_eq!(it.ask("reader", "GET", "/openapi.yaml", "").status, 200);
    assert_eq!(it.ask("writer", "GET", "/openapi.yaml", "").status, 403);
}

#[test]
fn without_a_right_every_route_is_closed() {
    let it =
        Guarded::start(&[client("writer", r#"["/"]"#, r#"["acquire"]"#, ""), client("nobody", r#"["/"]"#, "[]", "")]);
    let lease = it.acquire("writer", "a");
    let routes = super::descriptions::routes(include_str!("../../../cli/openapi/serve.yaml"));
    assert_eq!(routes.len(), 3);
    let bearers = ["", "Bearer", "Bearer ", "Bearer other", "Basic writer", "writer", "Bearer writer x"];
    for (path, methods) in &routes {
        let sent = path.replace("/leases/{lease}", &lease.path());
        for method in methods.keys() {
            for bearer in bearers {
                let answer = it.door.ask(method, &sent, &[("Authorization", bearer)], "");
                assert_eq!(answer.status, 401, "{bearer} {method} {path}: {answer:?}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
            assert_eq!(it.door.ask(method, &sent, &[], "").status, 401, "{method} {path}");
            let twice = [("Authorization", "Bearer writer"), ("Authorization", "Bearer writer")];
            assert_eq!(it.door.ask(method, &sent, &twice, "").status, 401, "{method} {path}");
            assert_eq!(it.ask("nobody", method, &sent, "").status, 403, "{method} {path}");
            let page = [("Authorization", "Bearer writer"), ("Origin", "https://evil.example")];
            assert_eq!(it.door.ask(method, &sent, &page, "").status, 403, "{method} {path}");
        }
    }
    assert_eq!(it.ask("writer", "GET", &lease.path(), "").status, 200, "it is still held");
}

#[test]
fn a_client_cannot_starve_another() {
    let it = Guarded::start(&[
        client("greedy", r#"["/"]"#, r#"["acquire"]"#, "leases = 2\nwaiters = 1\nrequests_per_second = 1000000"),
        client("often", r#"["/"]"#, r#"["acquire"]"#, "requests_per_second = 1"),
        client("other", r#"["/"]"#, r#"["acquire"]"#, ""),
    ]);
    let leases: Vec<Answer> = ["a", "b"].map(|name| it.acquire("greedy", name)).into();
    assert!(leases.iter().all(|lease| lease.status == 201), "{leases:?}");
    it.acquire("greedy", "c").is(429, "overloaded");
    assert_eq!(it.acquire("other", "c").status, 201);
    assert_eq!(it.ask("greedy", "DELETE", &leases[0].path(), "").status, 204);
    until("its place is free", || it.acquire("greedy", "d").status == 201);

    // However many it sends: its renewals do not count.
    let lease = it.acquire("often", "often");
    assert_eq!(lease.status, 201, "{lease:?}");
    until("its requests come too often", || {
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| it.acquire("often", "x").status)).collect();
            asked.into_iter().any(|status| status.join().unwrap() == 429)
        })
    });
    assert!((0..20).all(|_| it.ask("often", "PUT", &lease.path(), "").status == 200));
    assert_eq!(it.acquire("other", "e").status, 201);
}

#[test]
fn the_file_of_clients_is_read_again() {
    let old = client("writer", r#"["/"]"#, r#"["acquire"]"#, "leases = 1");
    let it = Guarded::start(std::slice::from_ref(&old));
    let lease = it.acquire("writer", "a");
    assert_eq!(lease.status, 201, "{lease:?}");
    let write = |text: &str| {
        let new = it.file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &it.file).unwrap();
    };
    // What cannot be read changes nothing.
    write("[writer");
    assert_eq!(it.ask("writer", "PUT", &lease.path(), "").status, 200);
    write(&client("new", r#"["/"]"#, r#"["acquire"]"#, ""));
    until("the new client is known", || it.acquire("new", "b").status == 201);
    assert_eq!(it.ask("writer", "PUT", &lease.path(), "").status, 401);
    // Its lease counts still.
    write(&old);
    until("the old client is known again", || it.ask("writer", "PUT", &lease.path(), "").status == 200);
    it.acquire("writer", "c").is(429, "overloaded");
    // It has lost the right to what it holds.
    write(&client("writer", r#"["b/"]"#, r#"["acquire"]"#, ""));
    until("it is not renewed", || it.ask("writer", "PUT", &lease.path(), "").status == 403);
}

#[test]
fn a_client_that_has_lost_its_right_renews_by_no_events() {
    let all = client("writer", r#"["/"]"#, r#"["acquire"]"#, "");
    let it = Guarded::start(std::slice::from_ref(&all));
    let lease = it.ask("writer", "POST", "/leases/a", r#"{"ttl_ms": 8000}"#);
    let events = format!("{}/events?renew=true", lease.path());
    let mut reader = Client::connect(it.door.requests);
    reader.send(head("GET", &events, &[("Authorization", "Bearer writer")]));
    assert!(reader.read_head().unwrap().starts_with("HTTP/1.1 200"));
    fs::write(&it.file, client("writer", r#"["b/"]"#, r#"["acquire"]"#, "")).unwrap();
    // It would go on for as long as it renews.
    reader.lines().for_each(drop);
    fs::write(&it.file, all).unwrap();
    until("the lease has ended", || it.acquire("writer", "a").status == 201);
}

#[test]
fn the_log_names_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clients.toml");
    fs::write(&file, client("writer", r#"["/"]"#, r#"["acquire"]"#, "")).unwrap();
    let mut command = fencing("memory:", &format!("serve --clients {}", file.display()));
    command.args(PORTS).stderr(Stdio::piped());
    let door = Door::listening(Running::start(command));
    let bearer = [("Authorization", "Bearer writer")];
    let lease = door.ask("POST", "/leases/a", &bearer, "");
    assert_eq!(door.ask("DELETE", &lease.path(), &bearer, "").status, 204);
    door.process.signal("TERM");
    let log = door.process.ended().stderr;
    for what in ["lease acquired", "lease released"] {
        let line = log.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {log}"));
        assert!(line.contains("writer") && line.contains("resource=a"), "{line}");
    }
}

#[test]
fn a_file_of_clients_that_is_wrong_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clients.toml");
    fs::write(&file, "[a]\nmay = []\n").unwrap();
    let start = |file: &str| support::cli::ask("memory:", &format!("serve --clients {file}"));
    start(&file.display().to_string()).says(64, "missing field `token_sha256`");
    start("/nowhere/clients.toml").says(64, "/nowhere/clients.toml: No such file");
}
