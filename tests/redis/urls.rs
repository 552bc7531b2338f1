//! How a Redis node is reached: user, password, database, TLS.

use std::path::Path;
use std::process::{Command, Output};

use crate::fleet::*;
use fencing::lock::NodeCause;
use support::cli::binary;
use support::clients::certify;
use support::ports::free_port;

/// The machine may be busy, and the system's certificates have to be read first.
fn patient(url: &str) -> RedlockBuilder {
    let builder = Redlock::builder().first_start(true).redis([url]);
    builder.ttl(Duration::from_secs(120)).node_budget(Duration::from_secs(60))
}

async fn acquire(url: &str) -> Result<(), AcquireError> {
    let redlock = patient(url).wait(PATIENCE).build().unwrap();
    redlock.acquire(&resource()).await.map(drop)
}

async fn cause(url: &str) -> NodeCause {
    let redlock = patient(url).wait(Duration::ZERO).build().unwrap();
    match redlock.acquire(&resource()).await.unwrap_err() {
        AcquireError::NoQuorum { mut causes, .. } => causes.remove(0),
        other => panic!("{other}"),
    }
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
    }
}

/// A process of its own, as the trusted certificates come from its environment.
fn run(url: &str, trusted: &Path, wait: &str) -> Output {
    let mut command = Command::new(binary("fencing"));
    command.env("SSL_CERT_FILE", trusted);
    command.args(["run", "--redis", url, "--resource", "invoice/42", "--wait", wait]);
    command.args(["--ttl", "2m", "--node-budget", "60s"]);
    command.args(["--", "sh", "-c", "echo $FENCING_TOKEN"]).output().unwrap()
}

#[test]
fn tls_with_a_certificate_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    certify(folder.path(), "DNS:localhost");
    let port = free_port().to_string();
    let server = RedisServer::with(&[
        "--tls-port",
        &port,
        "--tls-auth-clients",
        "no",
        "--tls-cert-file",
        path("certificate").to_str().unwrap(),
        "--tls-key-file",
        path("key").to_str().unwrap(),
    ]);
    let url = format!("rediss://localhost:{port}");
    let mut start = Command::new(binary("fencing"));
    start.env("SSL_CERT_FILE", path("certificate")).args(["fleet", "init", "--redis", &url]);
    start.args(["--node-budget", "5s"]);
    support::process::until("it starts", || start.status().unwrap().success());
    let trusted = run(&url, &path("certificate"), "10m");
    assert!(trusted.status.success(), "{trusted:?}");
    assert!(!trusted.stdout.is_empty());
    assert_eq!(server.cli(&["EXISTS", "{fencing}:memory"]), "1");

    let other = tempfile::tempdir().unwrap();
    certify(other.path(), "DNS:localhost");
    let distrusted = run(&url, &other.path().join("certificate"), "3s");
    assert_eq!(distrusted.status.code(), Some(69), "{distrusted:?}");
    let text = String::from_utf8(distrusted.stderr).unwrap();
    assert!(text.contains("certificate"), "{text}");
}

#[tokio::test]
async fn tls_to_a_server_without_is_no_panic() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().take(3).for_each(drop));
    let cause = cause(&format!("rediss://localhost:{port}")).await;
    assert!(matches!(cause.cause, Fault::Unreachable(_)), "{cause}");
}

#[tokio::test]
async fn a_server_that_errs_is_quoted() {
    let server = RedisServer::start();
    server.cli(&["SET", "{fencing}:memory", "somebody else's"]);
    let cause = cause(&server.url()).await;
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
