//! `fencing watch` on a terminal, with real servers.

mod terminal;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::cli::{end, fencing, finish, five, line, run, until, urls};
use support::process;
use support::redis::RedisServer;

use terminal::Terminal;

const QUICK: &str = "--every 500ms --node-budget 500ms";
const SIZE: (usize, usize) = (80, 24);

/// A view of these nodes.
fn watch(servers: &[RedisServer], options: &str) -> Terminal {
    let arguments = format!("{QUICK} {options}");
    Terminal::start(SIZE, &[("FENCING_REDIS", &urls(servers))], "", &arguments)
}

/// The line of a node, which the screen has room for.
fn of<'a>(lines: &'a [String], server: &RedisServer) -> &'a str {
    let mut found = lines.iter().filter(|line| line.contains(&server.url()));
    found.next().map_or("", String::as_str)
}

fn has(lines: &[String], texts: &[&str]) -> bool {
    lines.iter().any(|line| texts.iter().all(|text| line.contains(text)))
}

#[test]
fn a_lease_comes_and_a_node_that_dies_is_seen() {
    let mut servers = five();
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let mut terminal = watch(&servers, "");
    terminal.shows("NODES  5 of 5 grant, 3 needed");
    terminal.shows("LEASES  0 held");
    let script = format!(
        "echo x > {}; while ! [ -e {} ]; do sleep 0.02; done",
        ready.display(),
        go.display()
    );
    let holder =
        run(&servers, &["--ttl", "10m", "--holder", "billing-7"], &script).spawn().unwrap();
    line(&ready);
    terminal.until("the lease", |lines| has(lines, &["invoice/42 ", " billing-7 ", " 5/5"]));
    assert!(of(&terminal.screen(), &servers[0]).contains("grants  era "));

    servers[0].kill();
    terminal.until("one is dead", |lines| {
        let dead = of(lines, &servers[0]);
        dead.contains("NO ANSWER  for ") && !dead.contains("era")
    });
    terminal.until("the lease on four", |lines| has(lines, &["invoice/42", "billing-7", " 4/5"]));
    // One that hangs holds up nothing: the others go on to tell, and the clock goes on.
    servers[1].signal("STOP");
    terminal.until("one hangs", |lines| of(lines, &servers[1]).contains("NO ANSWER  for "));
    servers[2].cli(&["FLUSHALL"]);
    terminal.until("one has forgotten", |lines| of(lines, &servers[2]).contains("  CLOSED  for "));
    terminal.shows("NODES  2 of 5 grant, 3 needed, NO QUORUM");
    terminal.shows("LEASES  NO MAJORITY (2 of 5 answered)");
    let before = terminal.screen()[0].clone();
    terminal.until("it goes on", |lines| lines[0] != before && !has(lines, &["OLD:"]));
    servers[1].signal("CONT");
    terminal.until("it is back", |lines| of(lines, &servers[1]).contains("  grants  era "));
    terminal.press(b"q");
    terminal.left().assert_whole("0");
    std::fs::write(&go, "").unwrap();
    end(holder);
}

#[test]
fn however_it_ends_the_terminal_is_given_back() {
    let servers = five();
    for (keys, status) in [(&b"q"[..], "0"), (b"\x1b", "0"), (b"\x03", "0")] {
        let mut terminal = watch(&servers, "");
        terminal.shows("5 of 5 grant");
        terminal.press(keys);
        terminal.left().assert_whole(status);
    }
    for (signal, status) in [("TERM", "143"), ("HUP", "129"), ("INT", "130")] {
        let terminal = watch(&servers, "");
        terminal.shows("5 of 5 grant");
        process::signal(terminal.pid(), signal);
        terminal.left().assert_whole(status);
    }
}

#[test]
fn without_its_terminal_it_ends() {
    let servers = five();
    let urls = urls(&servers);
    for first in ["", "trap \"\" HUP;"] {
        let terminal = Terminal::start(SIZE, &[("FENCING_REDIS", &urls)], first, QUICK);
        terminal.shows("5 of 5 grant");
        let pid = terminal.pid();
        process::signal(terminal.script(), "KILL");
        until("its end", || !process::runs(pid));
    }
}

#[test]
fn without_a_terminal_it_prints_text() {
    let servers = five();
    let mut command = fencing(&servers);
    command.args(["watch", "--every", "500ms"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for text in
        ["fencing watch  namespace fencing", "5 of 5 grant", "  grants  era ", "LEASES  0 held"]
    {
        // Each picture has all of it, and the next one comes.
        for _ in 0..2 {
            assert!(lines.any(|line| line.contains(text) && !line.contains('\x1b')), "{text}");
        }
    }
    // The reader goes away, which is no failure.
    drop(lines);
    assert_eq!(end(child).code, Some(0));
    let environment = [("FENCING_REDIS", urls(&servers)), ("TERM", "dumb".to_owned())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let terminal = Terminal::start(SIZE, &environment, "", "--every 500ms");
    terminal.shows("5 of 5 grant");
    assert!(!terminal.written().contains('\x1b'));
}

#[test]
fn what_can_never_be_asked_ends_it() {
    for (place, words) in [
        (("FENCING_REDIS", "redis://a,redis://a"), "redis://a"),
        (("FENCING_DATABASE", "mysql://h"), "names no database"),
    ] {
        let left = Terminal::start(SIZE, &[place], "", QUICK).left();
        left.assert_whole("64");
        let said = left.written.rsplit("\x1b[?1049l").next().unwrap();
        assert!(said.contains("fencing: ") && said.contains(words), "{said:?}");
    }
    for options in ["--marks https://h", "--every 1ms"] {
        let place = [("FENCING_REDIS", "unix:///nowhere")];
        let left = Terminal::start(SIZE, &place, "", options).left();
        assert_eq!(left.status, "64", "{options}");
    }
}

#[test]
fn leases_and_marks_in_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", folder.path().display());
    let command = || {
        let mut command = fencing(&[]);
        command.env_remove("FENCING_REDIS").env("FENCING_DATABASE", &url);
        command
    };
    let place = [("FENCING_DATABASE", url.as_str())];
    let arguments = format!("{QUICK} --resource invoice/*");
    let mut terminal = Terminal::start((100, 24), &place, "set -f;", &arguments);
    // There is no file yet.
    terminal.until("no file", |lines| has(lines, &["LEASES", "NO ANSWER since "]));
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let script = format!(
        "echo x > {}; while ! [ -e {} ]; do sleep 0.02; done",
        ready.display(),
        go.display()
    );
    let mut holding = command();
    holding.args(["run", "--resource", "invoice/42", "--ttl", "10m", "--holder", "billing-7"]);
    holding.args(["--", "sh", "-c", &script]);
    let holder = holding.spawn().unwrap();
    line(&ready);
    terminal.until("the lease", |lines| has(lines, &["invoice/42 ", " billing-7 ", " none"]));
    terminal.shows("MARKS  0");
    for (token, word) in [("1", " same"), ("9", " NEWER")] {
        let mut raise = command();
        raise.args(["marks", "raise", "--resource", "invoice/42", "--token", token, "--yes"]);
        assert_eq!(finish(raise).code, Some(0));
        terminal.until(word, |lines| has(lines, &["invoice/42 ", " billing-7 ", word]));
    }
    terminal.shows("MARKS  1");
    assert!(!has(&terminal.screen(), &["NODES"]));
    terminal.press(b"q");
    terminal.left().assert_whole("0");
    std::fs::write(&go, "").unwrap();
    end(holder);
}

#[test]
fn a_narrow_screen_without_colours_says_it_too() {
    let mut servers = five();
    servers[0].kill();
    let urls = urls(&servers);
    let colours = |written: &str| written.contains("\x1b[38;5;1");
    for (no, coloured) in [("1", false), ("", true)] {
        let environment = [("FENCING_REDIS", urls.as_str()), ("NO_COLOR", no)];
        let mut terminal = Terminal::start((60, 20), &environment, "", QUICK);
        terminal.until("all of it", |lines| {
            has(lines, &["NODES  4 of 5 grant"])
                && has(lines, &["NO ANSWER  for "])
                && has(lines, &["LEASES  0 held"])
        });
        terminal.press(b"p");
        terminal.shows(" PAUSED since ");
        terminal.shows("OLD: of ");
        terminal.press(b"p");
        terminal.until("it asks again", |lines| !has(lines, &["OLD: of "]));
        terminal.press(b"q");
        let left = terminal.left();
        left.assert_whole("0");
        assert_eq!(colours(&left.written), coloured);
    }
}
