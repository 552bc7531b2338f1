//! `fencing run` from a terminal.

use std::path::Path;

use support::cli::*;

use crate::watch::Terminal;

/// A lease that a busy machine keeps.
const LONG: &str = "--ttl 60s --node-budget 5s";

/// Runs a script under such a lease, or another, and returns the word that it has noted when it has begun.
fn typed(
    servers: &[RedisServer],
    lease: &str,
    folder: &Path,
    [first, word, rest]: [&str; 3],
    redirection: &str,
) -> (Terminal, String) {
    let [script, ready] = ["script", "ready"].map(|name| folder.join(name));
    std::fs::write(&script, format!("{first}\necho {word} > {}\n{rest}", ready.display())).unwrap();
    let command = format!("run --resource a {lease} -- sh {} {redirection}", script.display());
    let place = [("FENCING_REDIS", &*urls(servers))];
    (Terminal::start((80, 24), &place, "", &command), line(&ready))
}

#[track_caller]
fn assert_ends(terminal: Terminal, status: &str, words: &str) {
    let left = terminal.left();
    assert_eq!(left.status, status, "{}", left.written);
    assert!(left.written.contains(words), "{}", left.written);
}

#[test]
fn the_command_reads_from_the_terminal_also_where_stdin_is_none() {
    let servers = five();
    for (word, redirection) in [("read word", ""), ("read word < /dev/tty", "< /dev/null")] {
        let folder = tempfile::tempdir().unwrap();
        let rest = format!("{word}; echo \"read $word\"; exit 5");
        let (mut terminal, _) = typed(&servers, LONG, folder.path(), ["", "", &rest], redirection);
        terminal.press(b"hello\n");
        assert_ends(terminal, "5", "read hello");
    }
}

#[test]
fn the_terminals_interrupt_comes_once() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let trap = "n=0; trap 'n=$((n+1))' INT";
    let rest = "while [ $n = 0 ]; do sleep 0.05; done; sleep 0.3; echo \"came $n\"; exit 6";
    let (mut terminal, _) = typed(&servers, LONG, folder.path(), [trap, "", rest], "");
    terminal.press(b"\x03");
    assert_ends(terminal, "6", "came 1");
}

#[test]
fn what_the_command_has_started_is_stopped_as_well() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    // The end of the terminal hangs up on whoever is left.
    let script = ["(trap '' HUP; exec sleep 1000) &", "$!", "wait; wait"];
    let (terminal, grandchild) = typed(&servers, "--ttl 12s --node-budget 1s", folder.path(), script, "");
    let grandchild = grandchild.parse().unwrap();
    assert!(runs(grandchild));
    servers.iter().take(3).for_each(|server| server.signal("STOP"));
    assert_ends(terminal, "76", "");
    servers.iter().take(3).for_each(|server| server.signal("CONT"));
    until("the end of the grandchild", || !runs(grandchild));
}

/// A terminal may stop a process in the background that writes to it, as the guard is.
#[test]
fn why_a_command_cannot_run_is_said_also_where_the_terminal_stops_who_writes() {
    let servers = five();
    let place = [("FENCING_REDIS", &*urls(&servers))];
    let command = "run --resource a --node-budget 1s -- no-such-program";
    let terminal = Terminal::start((80, 24), &place, "stty tostop;", command);
    assert_ends(terminal, "127", "cannot run no-such-program: ");
}
