//! What the clients send, and what they are answered, against cli/openapi/serve.yaml.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use sqlx::ConnectOptions as _;
use support::cli::Ended;
use tempfile::TempDir;

use super::*;

const DOCUMENT: &str = include_str!("../../../cli/openapi/serve.yaml");

/// Runs the tests of a client, which must pass, on a lock service of its own and a database with a fence. What it sends
/// and is answered must be described.
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
