//! From a terminal: `script` makes one.

use std::io::Write;
use std::process::{Child, Stdio};

use support::cli::{end, five, heeding, line, until, urls};
use support::process::runs;
use support::redis::RedisServer;

/// `fencing run` of this script with a terminal for stdin; what is written to the child's
/// stdin is typed there.
fn typed(servers: &[RedisServer], folder: &tempfile::TempDir, script: &str) -> Child {
    typed_with(servers, folder, script, "")
}

/// The same, with this redirection for `fencing run`.
fn typed_with(
    servers: &[RedisServer],
    folder: &tempfile::TempDir,
    script: &str,
    redirection: &str,
) -> Child {
    let file = folder.path().join("script");
    std::fs::write(&file, script).unwrap();
    let program = env!("CARGO_BIN_EXE_fencing");
    let line = format!(
        "exec {program} run --resource a --ttl 4s --node-budget 1s -- sh {} {redirection}",
        file.display()
    );
    let mut command = heeding("script");
    command.args(["-qec", &line, "/dev/null"]).env("FENCING_REDIS", urls(servers));
    command.env("SHELL", "/bin/sh").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn the_command_reads_from_the_terminal_also_where_stdin_is_none() {
    for (word, redirection) in [("read word", ""), ("read word < /dev/tty", "< /dev/null")] {
        let (servers, folder) = (five(), tempfile::tempdir().unwrap());
        let ready = folder.path().join("ready");
        let script = format!("echo > {}; {word}; echo \"read $word\"; exit 5", ready.display());
        let mut child = typed_with(&servers, &folder, &script, redirection);
        line(&ready);
        child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
        let ended = end(child);
        assert_eq!(ended.code, Some(5), "{}", ended.stdout);
        assert!(ended.stdout.contains("read hello"), "{}", ended.stdout);
    }
}

#[test]
fn the_terminals_interrupt_comes_once() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let ready = folder.path().join("ready");
    let script = format!(
        "n=0; trap 'n=$((n+1))' INT; echo > {}; \
         while [ $n = 0 ]; do sleep 0.05; done; sleep 0.3; echo \"came $n\"; exit 6",
        ready.display()
    );
    let mut child = typed(&servers, &folder, &script);
    line(&ready);
    let mut terminal = child.stdin.take().unwrap();
    terminal.write_all(b"\x03").unwrap();
    let ended = end(child);
    assert_eq!(ended.code, Some(6), "{}", ended.stdout);
    assert!(ended.stdout.contains("came 1"), "{}", ended.stdout);
}

#[test]
fn what_the_command_has_started_is_stopped_as_well() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let ready = folder.path().join("ready");
    // The end of the terminal hangs up on whoever is left.
    let script =
        format!("(trap '' HUP; exec sleep 1000) & echo $! > {}; wait; wait", ready.display());
    let child = typed(&servers, &folder, &script);
    let grandchild = line(&ready).parse().unwrap();
    assert!(runs(grandchild));
    servers.iter().take(3).for_each(|server| server.signal("STOP"));
    let ended = end(child);
    servers.iter().take(3).for_each(|server| server.signal("CONT"));
    assert_eq!(ended.code, Some(76), "{}", ended.stdout);
    until("the end of the grandchild", || !runs(grandchild));
}
