//! How a Redis node is reached: user, password, database, TLS.

use std::path::Path;

use crate::fleet::*;
use fencing::lock::NodeCause;
use support::cli::{Ended, PATIENT, fencing, finish};
use support::clients::certify;
use support::ports::{free_port, serve_each};

async fn acquire(url: &str) -> Result<(), AcquireError> {
    let redlock = steady(&[]).redis([url]).wait(PATIENCE).build().unwrap();
    redlock.acquire(&resource()).await.map(drop)
}

async fn cause(url: &str) -> NodeCause {
    let redlock = steady(&[]).redis([url]).wait(Duration::ZERO).build().unwrap();
    let error = redlock.acquire(&resource()).await.unwrap_err();
    let AcquireError::NoQuorum { mut causes, .. } = error else { panic!("{error}") };
    causes.remove(0)
}

#[tokio::test]
async fn user_password_and_database() {
    let worker = ["--user", "worker", "on", ">secret", "~{fencing}:*", "+@all"];
    let guest = ["--user", "guest", "on", ">secret", "+select"];
    let server = RedisServer::with(&[&worker[..], &guest[..]].concat());
    let url =
        |user: &str, password: &str| format!("unix://{}?user={user}&pass={password}&db=3", server.socket().display());
    acquire(&url("worker", "secret")).await.unwrap();
    assert_eq!(server.cli(&["-n", "3", "EXISTS", "{fencing}:memory"]), "1");
    assert_eq!(server.cli(&["EXISTS", "{fencing}:memory"]), "0");
    for (user, password) in [("worker", "wrong-password"), ("guest", "secret")] {
        let cause = cause(&url(user, password)).await;
        assert!(matches!(cause.cause, Fault::Denied(_)), "{cause}");
        assert!(cause.node.contains(user) && !cause.to_string().contains(password), "{cause}");
        // Waiting would not help.
        let patient = steady(&[]).redis([url(user, password)]).wait(Duration::from_secs(3600)).build().unwrap();
        in_time(patient.acquire(&resource())).await.unwrap_err();
    }
    // A server that is full refuses the login, too; that passes.
    server.cli(&["CONFIG", "SET", "maxclients", "1"]);
    let _last = std::os::unix::net::UnixStream::connect(server.socket()).unwrap();
    in_time(async {
        loop {
            match cause(&url("worker", "secret")).await.cause {
                Fault::Refused(text) if text.contains("max number of clients") => return,
                // It was closed before it was read.
                Fault::Unreachable(_) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

/// A process of its own, as the trusted certificates come from its environment.
fn run(url: &str, trusted: &Path, wait: &str) -> Ended {
    let mut command = support::cli::run(url, &format!("{PATIENT} --wait {wait}"), "echo $FENCING_TOKEN");
    command.env("SSL_CERT_FILE", trusted);
    finish(command)
}

#[test]
fn tls_with_a_certificate_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    certify(folder.path(), "DNS:localhost");
    let port = free_port().to_string();
    let files = [path("certificate"), path("key")];
    let [certificate, key] = files.each_ref().map(|file| file.to_str().unwrap());
    let settings = ["--tls-port", &*port, "--tls-auth-clients", "no", "--tls-cert-file", certificate];
    let server = RedisServer::with(&[&settings[..], &["--tls-key-file", key]].concat());
    let url = format!("rediss://localhost:{port}");
    let mut start = fencing(&*url, "fleet init --node-budget 5s");
    start.env("SSL_CERT_FILE", path("certificate"));
    support::process::until("it starts", || start.status().unwrap().success());
    assert!(!run(&url, &path("certificate"), "10m").says(0, "").stdout.is_empty());
    assert_eq!(server.cli(&["EXISTS", "{fencing}:memory"]), "1");

    let other = tempfile::tempdir().unwrap();
    certify(other.path(), "DNS:localhost");
    run(&url, &other.path().join("certificate"), "3s").says(69, "certificate");
}

#[tokio::test]
async fn tls_to_a_server_without_is_no_panic_and_a_server_that_errs_is_quoted() {
    let cause = cause(&format!("rediss://localhost:{}", serve_each(drop).port())).await;
    assert!(matches!(cause.cause, Fault::Unreachable(_)), "{cause}");
    let server = RedisServer::start();
    server.cli(&["SET", "{fencing}:memory", "somebody else's"]);
    let cause = self::cause(&server.url()).await;
    let Fault::Refused(text) = &cause.cause else { panic!("{cause}") };
    assert!(text.contains("WRONGTYPE"), "{text}");
}

/// A connection whose other end vanishes while it is idle is found: the kernel asks for it.
#[tokio::test]
async fn connections_are_kept_alive() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = RedisNode::new(&format!("redis://127.0.0.1:{port}"), "fencing").unwrap();
    let fleet = Fleet::new(["a"]).unwrap();
    let opening = tokio::spawn(node.open(&fleet, "me"));
    // The client has sent its first words, and we acknowledge them: the line is idle then.
    let accept = move || {
        let (mut end, address) = listener.accept().unwrap();
        std::io::Read::read(&mut end, &mut [0; 1024]).unwrap();
        (end, address)
    };
    let (_end, address) = tokio::task::spawn_blocking(accept).await.unwrap();
    let line = format!(":{:04X} 0100007F:{port:04X} 01 ", address.port());
    until("its timer is 02, the one that keeps alive", async || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let own = table.lines().find(|entry| entry.contains(&line)).unwrap();
        own.split_whitespace().nth(5).unwrap().starts_with("02:")
    })
    .await;
    opening.abort();
}
